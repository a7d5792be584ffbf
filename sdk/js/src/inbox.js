// @ts-check
// Messages on their way through the app: each is handled once and answered, however often it comes.

import { HubError } from './errors.js';
import { LARGEST_FRAME, response } from './frames.js';

const PRIORITIES = ['low', 'normal', 'high'];
const LONGEST_REASON = 1024;

/** @typedef {import('../index.js').Message} Message */

export class Inbox {
  /** Messages whose handler is at work, by id, and what sends their answer again. @type {Map<string, () => void>} */
  #running = new Map();
  /** Ids of acknowledged messages, the oldest first. @type {Set<string>} */
  #acknowledged = new Set();
  #leaving = new AbortController();
  #settings;
  #send;

  /**
   * @param {import('./options.js').Settings} settings
   * @param {(frame: string) => void} send
   */
  constructor(settings, send) {
    this.#settings = settings;
    this.#send = send;
  }

  /** @param {import('./frames.js').Delivery} delivery */
  take(delivery) {
    const { id } = delivery;
    const repeat = this.#running.get(id);
    if (repeat) {
      // The hub may have missed the answer. If there is none yet, it is still to come.
      repeat();
    } else if (this.#acknowledged.has(id)) {
      this.#remember(id);
      this.#send(response(id, 'ack', {}));
    } else if (this.#running.size >= this.#settings.maxRunning) {
      this.#send(response(id, 'reject', { reason: `busy with ${this.#running.size} other messages` }));
    } else {
      void this.#handle(delivery);
    }
  }

  /** Tells the handlers at work that nobody waits for them any more. */
  close() {
    this.#leaving.abort();
  }

  /** @param {import('./frames.js').Delivery} delivery */
  async #handle(delivery) {
    const { message, repeat } = this.#open(delivery);
    this.#running.set(message.id, repeat);
    try {
      await this.#settings.onMessage(message);
      message.ack();
    } catch (cause) {
      const reason = text(cause);
      message.reject(reason);
      // A handler that was told to stop does so by throwing.
      if (!this.#leaving.signal.aborted) {
        this.#settings.onError(new HubError('HANDLER_FAILED', `the handler of a message failed: ${reason}`, { cause }));
      }
    } finally {
      this.#running.delete(message.id);
    }
  }

  /**
   * @param {import('./frames.js').Delivery} delivery
   * @returns {{ message: Message, repeat(): void }}
   */
  #open({ id, text, timestamp, metadata }) {
    const send = this.#send;
    /** @type {{ type: 'ack' | 'reject', frame: string } | null} */
    let answer = null;
    /** @type {(type: 'ack' | 'reject', payload: object) => boolean} */
    const settle = (type, payload) => {
      if (answer) return false;
      answer = { type, frame: response(id, type, payload) };
      // Only what was taken must not be done twice: after a rejection another attempt is a new chance.
      if (type === 'ack') this.#remember(id);
      send(answer.frame);
      return true;
    };
    /** @type {Message} */
    const message = Object.freeze({
      id,
      text,
      timestamp,
      metadata,
      signal: this.#leaving.signal,
      get answer() {
        return answer?.type ?? null;
      },
      ack: () => settle('ack', {}),
      /** @param {string} [reason] */
      reject: (reason) => settle('reject', reason ? { reason: shorten(String(reason)) } : {}),
      /** @param {import('../index.js').Notification | string} notification */
      notify: (notification) => send(notice(id, notification)),
    });
    const repeat = () => {
      if (answer) send(answer.frame);
    };
    return { message, repeat };
  }

  /** @param {string} id */
  #remember(id) {
    this.#acknowledged.delete(id);
    this.#acknowledged.add(id);
    if (this.#acknowledged.size <= this.#settings.maxRemembered) return;
    // Should the hub send the forgotten one once more, it is handled once more.
    const [oldest] = this.#acknowledged;
    if (oldest !== undefined) this.#acknowledged.delete(oldest);
  }
}

/**
 * @param {string} id
 * @param {import('../index.js').Notification | string} notification
 */
function notice(id, notification) {
  const given = typeof notification === 'string' ? { body: notification } : notification;
  const { title, body, priority, expectsReply } = given;
  for (const part of [title, body]) {
    if (part !== undefined && typeof part !== 'string') throw new TypeError('title and body must be strings');
  }
  if (!title && !body) throw new TypeError('a notification needs a title or a body');
  if (priority !== undefined && !PRIORITIES.includes(priority)) {
    throw new TypeError(`\`priority\` must be one of ${PRIORITIES.join(', ')}`);
  }
  const metadata = expectsReply ? { expectsReply: true } : undefined;
  const frame = response(id, 'notification', { title, body, priority, metadata });
  // Sent nevertheless, it would cost the connection.
  if (new TextEncoder().encode(frame).length > LARGEST_FRAME) throw new RangeError('the notification exceeds 1 MiB');
  return frame;
}

/** @param {unknown} error */
function text(error) {
  const message = error instanceof Error ? error.message : String(error);
  return shorten(message || 'the handler failed');
}

/** @param {string} text */
function shorten(text) {
  if (text.length <= LONGEST_REASON) return text;
  // Half a surrogate pair is no character.
  return `${text.slice(0, LONGEST_REASON - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
