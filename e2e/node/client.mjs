// A gateway client for tests, on the `ws` package: frames by request id, in the order they came.
//
//   const gateway = await connect(t, server);
//   assert.equal(await gateway.result('ping'), 'pong');
//   const turn = await gateway.chat('hello');

import { once } from 'node:events';

import { load } from './packages.mjs';

const WebSocket = load('ws');
const TIMEOUT = 60_000;

/** A greeted connection that goes away with the test `t`. */
export async function connect(t, server, options = {}) {
  const gateway = new Gateway(server, options);
  t.after(() => gateway.socket.terminate());
  await once(gateway.socket, 'open', { signal: AbortSignal.timeout(TIMEOUT) });
  if (options.token !== undefined) gateway.send({ token: options.token });
  if (options.greet !== false) gateway.greeting = await gateway.nextFrame();
  return gateway;
}

/** The status with which the server refuses to upgrade. */
export async function refusal(server, options) {
  const socket = new WebSocket(server.wsUrl, options);
  const [, response] = await once(socket, 'unexpected-response', { signal: AbortSignal.timeout(TIMEOUT) });
  response.destroy();
  socket.on('error', () => {});
  socket.terminate();
  return response.statusCode;
}

/** All frames of one stream, the last one `done`. */
export class Turn {
  constructor(frames) {
    this.frames = frames;
    this.events = frames.map((frame) => frame.event);
    /** With neighbours of the same kind as one: pieces of text come in any number. */
    this.outline = this.events.filter((event, at) => event !== this.events[at - 1]);
    this.text = this.data('text').join('');
  }

  data(event) {
    return this.frames.filter((frame) => frame.event === event).map((frame) => frame.data);
  }
}

class Gateway {
  constructor(server, { headers, origin } = {}) {
    this.socket = new WebSocket(server.wsUrl, { headers, origin });
    this.seen = [];
    this.waiting = [];
    this.count = 0;
    this.closed = new Promise((resolve) => this.socket.once('close', (code) => resolve(code)));
    this.socket.on('message', (data) => this.take(JSON.parse(data)));
    this.socket.on('close', (code) => this.fail(new Error(`the connection is closed: ${code}`)));
    this.socket.on('error', (error) => this.fail(error));
  }

  send(frame) {
    this.socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  /** The next frame nobody has asked for yet that suits, or the next at all. */
  nextFrame(suits = () => true, timeout = TIMEOUT) {
    const at = this.seen.findIndex(suits);
    if (at >= 0) return Promise.resolve(this.seen.splice(at, 1)[0]);
    return new Promise((resolve, reject) => {
      const waiter = { suits, resolve, reject };
      waiter.timer = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(waiter), 1);
        reject(new Error('no such frame in time'));
      }, timeout);
      this.waiting.push(waiter);
    });
  }

  take(frame) {
    const at = this.waiting.findIndex((waiter) => waiter.suits(frame));
    if (at < 0) {
      this.seen.push(frame);
      return;
    }
    const [waiter] = this.waiting.splice(at, 1);
    clearTimeout(waiter.timer);
    waiter.resolve(frame);
  }

  fail(error) {
    for (const waiter of this.waiting.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.reject(error);
    }
  }

  nextOf(id) {
    return this.nextFrame((frame) => frame.id === id);
  }

  /** Sends a request and gives its id. */
  ask(method, params) {
    const id = `n${++this.count}`;
    this.send({ id, method, params });
    return id;
  }

  answer(method, params) {
    return this.nextOf(this.ask(method, params));
  }

  async result(method, params) {
    const answer = await this.answer(method, params);
    if (!('result' in answer) || 'error' in answer) throw new Error(`${method} failed: ${JSON.stringify(answer)}`);
    return answer.result;
  }

  async error(method, params) {
    const answer = await this.answer(method, params);
    if (!('error' in answer) || 'result' in answer) throw new Error(`${method} succeeded: ${JSON.stringify(answer)}`);
    return answer.error;
  }

  start(content, where = {}) {
    return this.ask('chat.send', { channel: 'websocket', account: 'alice', content, ...where });
  }

  /** The frames of a stream up to the first one with this event. */
  async until(id, event) {
    const frames = [];
    do {
      frames.push(await this.nextOf(id));
      if (frames.at(-1).event === undefined) throw new Error(`not a stream: ${JSON.stringify(frames.at(-1))}`);
    } while (frames.at(-1).event !== event && frames.at(-1).event !== 'done');
    return frames;
  }

  async turn(id) {
    return new Turn(await this.until(id, 'done'));
  }

  chat(content, where) {
    return this.turn(this.start(content, where));
  }
}
