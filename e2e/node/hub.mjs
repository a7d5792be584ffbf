// The hub for tests: a server with one, a client made from the protocol's document alone on the `ws` package, and the
// user who submits messages over HTTP.
//
//   const hub = await startHub(t);
//   const notebook = await register(t, hub, { name: 'notebook', description: 'I take notes.' });
//   const { id } = await submit(hub, 'notebook: buy milk');
//   notebook.ack((await notebook.message()).id);
//   await reaches(hub, id, 'delivered');

import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';

import { load } from './packages.mjs';
import { startServer } from './server.mjs';

export const WebSocket = load('ws');
export const NOTEBOOK = { name: 'notebook', description: 'I take notes and remember things for you.' };
export const TIMEOUT = 60_000;
// The most seconds that whoever submits may wait for the answer.
export const LONGEST_WAIT = 120;
const POLL = 20;

/** A server whose hub keeps its address when it is started again. */
export async function startHub(t, options = {}) {
  const server = await startServer(t, { hub: '127.0.0.1:0', ...options });
  server.listen.hub = server.address('hub');
  // While the server is down, another program may be given its port for a moment.
  const start = server.start.bind(server);
  server.start = async (...args) => {
    const deadline = Date.now() + TIMEOUT;
    for (;;) {
      try {
        return await start(...args);
      } catch (error) {
        if (!/address already in use/i.test(error.message) || Date.now() > deadline) throw error;
        await delay(POLL);
      }
    }
  };
  return server;
}

export const hubUrl = (server) => `ws://${server.address('hub')}`;

/** What a user says. The answer has the message's id and state. */
export async function submit(server, text, { wait, ...more } = {}) {
  const query = wait === undefined ? '' : `?wait=${wait}`;
  const response = await fetch(`http://${server.address('hub')}/v1/messages${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ text, ...more }),
  });
  const body = await response.text();
  if (response.status !== 202) throw new Error(`not accepted: ${response.status} ${body}`);
  return JSON.parse(body);
}

export async function lookUp(server, id) {
  const response = await fetch(`http://${server.address('hub')}/v1/messages/${id}`);
  if (response.status !== 200) throw new Error(`no such message: ${response.status} ${await response.text()}`);
  return response.json();
}

/** The message once `suits` holds for it, or an error that shows how far it came. */
export async function eventually(server, id, suits) {
  const deadline = Date.now() + TIMEOUT;
  for (;;) {
    const message = await lookUp(server, id);
    if (suits(message)) return message;
    if (Date.now() > deadline) throw new Error(`it did not come to that: ${JSON.stringify(message)}`);
    await delay(POLL);
  }
}

export const reaches = (server, id, state) => eventually(server, id, (message) => message.state === state);

/** A connected client that goes away with the test `t`. */
export async function connect(t, server, { path = '', ...options } = {}) {
  const client = new HubClient(new WebSocket(hubUrl(server) + path, options));
  t.after(() => client.socket.terminate());
  await once(client.socket, 'open', { signal: AbortSignal.timeout(TIMEOUT) });
  return client;
}

/** A connected and registered client. */
export async function register(t, server, about, options) {
  const client = await connect(t, server, options);
  const answer = await client.register(about);
  if (answer.success !== true) throw new Error(`not registered: ${JSON.stringify(answer)}`);
  return client;
}

/** The status with which the server refuses to upgrade. */
export async function refusal(server, options) {
  const socket = new WebSocket(hubUrl(server), options);
  const [, response] = await once(socket, 'unexpected-response', { signal: AbortSignal.timeout(TIMEOUT) });
  response.destroy();
  socket.on('error', () => {});
  socket.terminate();
  return response.statusCode;
}

export class HubClient {
  constructor(socket) {
    this.socket = socket;
    this.seen = [];
    this.waiting = [];
    this.closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    socket.on('message', (data) => this.take(JSON.parse(data)));
    socket.on('close', (code) => this.fail(new Error(`the connection is closed: ${code}`)));
    socket.on('error', (error) => this.fail(error));
  }

  /** A frame, or any text or bytes as they are. */
  send(frame) {
    this.socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  register(payload) {
    this.send({ type: 'registration', payload });
    return this.next('registration_response');
  }

  message() {
    return this.next('message');
  }

  respond(messageId, type, payload = {}) {
    this.send({ type: 'response', payload: { messageId, type, payload } });
  }

  ack(id) {
    this.respond(id, 'ack');
  }

  reject(id, reason) {
    this.respond(id, 'reject', { reason });
  }

  notify(id, notification) {
    this.respond(id, 'notification', notification);
  }

  /** The payload of the next frame of this type that nobody has asked for yet. */
  next(type) {
    const at = this.seen.findIndex((frame) => frame.type === type);
    if (at >= 0) return Promise.resolve(this.seen.splice(at, 1)[0].payload);
    return new Promise((resolve, reject) => {
      const waiter = { type, resolve, reject };
      waiter.timer = setTimeout(() => {
        this.waiting.splice(this.waiting.indexOf(waiter), 1);
        reject(new Error(`no ${type} in time; there are ${JSON.stringify(this.seen)}`));
      }, TIMEOUT);
      this.waiting.push(waiter);
    });
  }

  take(frame) {
    const at = this.waiting.findIndex((waiter) => waiter.type === frame.type);
    if (at < 0) {
      this.seen.push(frame);
      return;
    }
    const [waiter] = this.waiting.splice(at, 1);
    clearTimeout(waiter.timer);
    waiter.resolve(frame.payload);
  }

  fail(error) {
    for (const waiter of this.waiting.splice(0)) {
      clearTimeout(waiter.timer);
      waiter.reject(error);
    }
  }
}
