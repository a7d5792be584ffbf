// @ts-check
// One app's place on the hub: connects, registers, and comes back whenever the connection is lost.

import { HubError, RegistrationError } from './errors.js';
import { read, registration } from './frames.js';
import { Inbox } from './inbox.js';
import { Outbox } from './outbox.js';

const FIRST_DELAY = 1000;
const LONGEST_DELAY = 30_000;
const LEFT = 1000;
// Of the range that is free for applications.
const REGISTRATION_FAILED = 4000;
/** A hub that does not answer the goodbye is not waited for. */
const GOODBYE_TIMEOUT = 2000;

/** @typedef {import('../index.js').State} State */
/** @typedef {import('../index.js').WebSocketLike} Socket */

export class Connection {
  /** @type {State} */
  #state = Object.freeze({ name: 'connecting' });
  /** @type {Socket | null} */
  #socket = null;
  /** Attempts in a row since the app was last registered. */
  #attempts = 0;
  /** Either the end of the back-off or that of the hub's time to register. @type {unknown} */
  #timer = null;
  /** @type {Promise<void> | null} */
  #left = null;
  #settings;
  #outbox;
  #inbox;
  /** @type {{ resolve(): void, reject(error: HubError): void }} */
  #waiter;

  /** @param {import('./options.js').Settings} settings */
  constructor(settings) {
    // A mistake in a callback shows as an uncaught error and does not stop the connection.
    const { onState, onError } = settings;
    this.#settings = { ...settings, onState: guarded(onState), onError: guarded(onError) };
    this.#outbox = new Outbox(this.#settings);
    this.#inbox = new Inbox(this.#settings, (frame) => this.#outbox.send(frame));
    let waiter;
    /** @type {Promise<void>} */
    this.ready = new Promise((resolve, reject) => (waiter = { resolve, reject }));
    this.#waiter = /** @type {any} */ (waiter);
    // Who does not ask need not handle.
    this.ready.catch(() => {});
    this.#open();
  }

  get state() {
    return this.#state;
  }

  close() {
    return this.#left ?? this.#leave(null);
  }

  #open() {
    const { WebSocket, url, timers, registrationTimeout } = this.#settings;
    const socket = new WebSocket(url);
    this.#socket = socket;
    this.#timer = timers.setTimeout(() => {
      const message = `the hub did not answer within ${registrationTimeout} ms`;
      this.#lose(new HubError('REGISTRATION_TIMEOUT', message), REGISTRATION_FAILED);
    }, registrationTimeout);
    let opened = false;
    socket.onopen = () => {
      opened = true;
      socket.send(registration(this.#settings.registration));
    };
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onerror = ({ message }) => {
      // A socket that never opened need not close either: that of Node 22 does not. Otherwise the close tells more.
      if (opened) return;
      const detail = message ? `: ${message}` : '';
      this.#lose(new HubError('DISCONNECTED', `there is no connection to ${url}${detail}`));
    };
    socket.onclose = ({ code, reason }) => {
      const detail = [code, reason].filter(Boolean).join(' ');
      this.#lose(new HubError('DISCONNECTED', `the connection to ${url} ended${detail ? `: ${detail}` : ''}`));
    };
  }

  /** @param {unknown} data */
  #receive(data) {
    let frame;
    try {
      frame = read(data);
    } catch (error) {
      this.#settings.onError(/** @type {HubError} */ (error));
      return;
    }
    switch (frame.kind) {
      case 'registered':
        return this.#registered(frame.clientId);
      case 'refused':
        return this.#refused(new RegistrationError(frame.code, `the hub refuses the registration: ${frame.message}`));
      case 'message':
        return this.#inbox.take(frame.delivery);
      case 'error':
        return this.#settings.onError(new HubError(frame.code, `the hub reports: ${frame.message}`));
      case 'other':
        return undefined;
    }
  }

  /** @param {string} clientId */
  #registered(clientId) {
    const socket = this.#socket;
    if (!socket || this.#state.name === 'registered') return;
    this.#settings.timers.clearTimeout(this.#timer);
    this.#attempts = 0;
    this.#outbox.open(socket);
    this.#waiter.resolve();
    this.#change({ name: 'registered', clientId });
  }

  /** @param {RegistrationError} error */
  #refused(error) {
    this.#settings.onError(error);
    // Once registered, a refusal is no more than an error: the place is kept. The application may also have left.
    if (this.#state.name === 'connecting') this.#lose(error, REGISTRATION_FAILED);
  }

  /**
   * Gives up the socket and tries again later.
   *
   * @param {HubError} error
   * @param {number} [code] To close the socket with.
   */
  #lose(error, code) {
    this.#drop(code);
    if (this.#attempts >= this.#settings.maxAttempts) {
      const message = `no place on the hub after ${this.#attempts} more attempts: ${error.message}`;
      const gaveUp = new HubError('GAVE_UP', message, { cause: error });
      void this.#leave(gaveUp);
      this.#settings.onError(gaveUp);
      return;
    }
    const delay = Math.min(FIRST_DELAY * 2 ** this.#attempts, LONGEST_DELAY);
    this.#attempts += 1;
    this.#timer = this.#settings.timers.setTimeout(() => {
      this.#change({ name: 'connecting' });
      // The application may have left when it was told.
      if (this.#state.name === 'connecting') this.#reopen();
    }, delay);
    this.#change({ name: 'waiting', attempt: this.#attempts, delay, error });
  }

  #reopen() {
    try {
      this.#open();
    } catch (cause) {
      // What the constructor refuses today, such as a page that is being unloaded, it may take later.
      this.#lose(new HubError('DISCONNECTED', 'the connection cannot be made', { cause }));
    }
  }

  /** @param {HubError | null} error */
  #leave(error) {
    const left = this.#drop(LEFT);
    this.#left = left;
    this.#outbox.close();
    this.#inbox.close();
    this.#waiter.reject(error ?? new HubError('CLOSED', 'the connection was closed before the app was registered'));
    this.#change(error ? { name: 'closed', error } : { name: 'closed' });
    return left;
  }

  /**
   * Forgets the socket, whose last events must not be taken for those of the next one.
   *
   * @param {number} [code] To close it with.
   * @returns {Promise<void>} Until it is closed.
   */
  #drop(code) {
    const { timers } = this.#settings;
    timers.clearTimeout(this.#timer);
    this.#outbox.pause();
    const socket = this.#socket;
    this.#socket = null;
    if (!socket) return Promise.resolve();
    socket.onopen = null;
    socket.onmessage = null;
    // Without a listener some sockets throw.
    socket.onerror = () => {};
    if (code === undefined) {
      socket.onclose = null;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const timer = timers.setTimeout(resolve, GOODBYE_TIMEOUT);
      socket.onclose = () => {
        timers.clearTimeout(timer);
        resolve();
      };
      socket.close(code, code === LEFT ? 'client disconnect' : 'registration failed');
    });
  }

  /** @param {State} state */
  #change(state) {
    this.#state = Object.freeze(state);
    this.#settings.onState(state);
  }
}

/**
 * @template T
 * @param {(value: T) => void} callback
 * @returns {(value: T) => void}
 */
function guarded(callback) {
  return (value) => {
    try {
      callback(value);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
