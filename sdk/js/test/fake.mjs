// A hub without a network and a clock without time: tests say what comes and when.
//
//   const hub = fakeHub();
//   const app = hub.connect({ onMessage: () => {} });
//   hub.socket.register();
//   hub.clock.advance(1000);

import { connect } from '../src/index.js';

export const ABOUT = { name: 'notebook', description: 'I take notes.' };

export function fakeHub() {
  const clock = new Clock();
  const sockets = [];
  const states = [];
  const errors = [];
  class WebSocket extends FakeSocket {
    constructor(url) {
      super(url);
      sockets.push(this);
    }
  }
  return {
    clock,
    sockets,
    states,
    errors,
    get socket() {
      return sockets.at(-1);
    },
    connect: (options) =>
      connect({
        ...ABOUT,
        WebSocket,
        timers: clock,
        onMessage: () => {},
        onState: (state) => states.push(state),
        onError: (error) => errors.push(error),
        ...options,
      }),
  };
}

/** Lets everything that waits for a promise go on. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));

export const message = (id, text = 'hello', more = {}) => ({
  type: 'message',
  payload: {
    id,
    text,
    timestamp: '2024-01-15T10:30:00.000Z',
    metadata: { inputMethod: 'text', directRouted: false },
    ...more,
  },
});

export const answer = (messageId, type, payload = {}) => ({ type: 'response', payload: { messageId, type, payload } });

class FakeSocket {
  readyState = 0;
  bufferedAmount = 0;
  onopen = null;
  onmessage = null;
  onerror = null;
  onclose = null;
  /** What the app sent, and with what it closed. */
  sent = [];
  closed = null;

  constructor(url) {
    this.url = url;
  }

  send(data) {
    if (this.readyState !== 1) throw new Error('sent on a socket that is not open');
    this.sent.push(JSON.parse(data));
  }

  close(code, reason) {
    this.closed = { code, reason };
    this.readyState = 2;
  }

  open() {
    this.readyState = 1;
    this.onopen?.({});
  }

  receive(frame) {
    this.onmessage?.({ data: typeof frame === 'string' ? frame : JSON.stringify(frame) });
  }

  /** Opens, and lets the app in. */
  register(clientId = 'c1') {
    this.open();
    this.receive({ type: 'registration_response', payload: { success: true, clientId, message: 'welcome' } });
  }

  refuse(code) {
    this.open();
    this.receive({ type: 'registration_response', payload: { success: false, code, message: `no: ${code}` } });
  }

  /** The connection ends on the hub's side. */
  end(code = 1006, reason = '') {
    this.readyState = 3;
    if (code === 1006) this.onerror?.({ message: 'connection refused' });
    this.onclose?.({ code, reason });
  }

  /** What was sent after the registration. */
  get answers() {
    return this.sent.filter((frame) => frame.type === 'response');
  }
}

class Clock {
  now = 0;
  #timers = new Set();

  setTimeout = (callback, milliseconds) => {
    const timer = { callback, at: this.now + milliseconds };
    this.#timers.add(timer);
    return timer;
  };

  clearTimeout = (timer) => this.#timers.delete(timer);

  /** How long from now each timer has, the next first. */
  get pending() {
    return [...this.#timers].map((timer) => timer.at - this.now).sort((one, other) => one - other);
  }

  advance(milliseconds) {
    const end = this.now + milliseconds;
    for (;;) {
      const due = [...this.#timers].filter((timer) => timer.at <= end).sort((one, other) => one.at - other.at)[0];
      if (!due) break;
      this.#timers.delete(due);
      this.now = due.at;
      due.callback();
    }
    this.now = end;
  }
}
