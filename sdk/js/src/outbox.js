// @ts-check
// Answers on their way to the hub. What cannot be sent now waits, in order, within a bound.

import { HubError } from './errors.js';

/** The socket's own buffer has no bound, so beyond this the frames wait here instead. */
const MOST_BUFFERED = 4 * 1024 * 1024;
/** Browsers do not tell when the buffer is empty again. */
const LOOK_AGAIN = 100;
const OPEN = 1;

export class Outbox {
  /** @type {string[]} */
  #waiting = [];
  /** @type {import('../index.js').WebSocketLike | null} */
  #socket = null;
  /** @type {unknown} */
  #timer = null;
  #closed = false;
  #settings;

  /** @param {import('./options.js').Settings} settings */
  constructor(settings) {
    this.#settings = settings;
  }

  /** @param {string} frame */
  send(frame) {
    if (this.#closed) return;
    this.#waiting.push(frame);
    this.#flush();
    if (this.#waiting.length > this.#settings.maxQueued) {
      this.#waiting.shift();
      const message = `more than ${this.#settings.maxQueued} answers wait for the hub: the oldest is dropped`;
      this.#settings.onError(new HubError('ANSWERS_DROPPED', message));
    }
  }

  /**
   * From now on frames go through this socket, those that waited first.
   *
   * @param {import('../index.js').WebSocketLike} socket
   */
  open(socket) {
    this.#socket = socket;
    this.#flush();
  }

  /** From now on frames wait. */
  pause() {
    this.#socket = null;
    this.#settings.timers.clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** From now on frames are lost. */
  close() {
    this.pause();
    this.#closed = true;
    this.#waiting = [];
  }

  #flush() {
    const socket = this.#socket;
    if (!socket || this.#timer !== null) return;
    // A socket that is closing swallows what it gets.
    while (socket.readyState === OPEN && socket.bufferedAmount <= MOST_BUFFERED) {
      const frame = this.#waiting.shift();
      if (frame === undefined) return;
      socket.send(frame);
    }
    if (this.#waiting.length > 0) {
      this.#timer = this.#settings.timers.setTimeout(() => {
        this.#timer = null;
        this.#flush();
      }, LOOK_AGAIN);
    }
  }
}
