// Connecting, registering, losing the connection and leaving.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { HubError, RegistrationError, connect } from '../src/index.js';
import { ABOUT, fakeHub, message, settled } from './fake.mjs';

const names = (states) => states.map((state) => state.name);

test('the app says who it is as soon as the connection is open, and is registered by the answer', async () => {
  const hub = fakeHub();
  const app = hub.connect({ version: '1.2.0', capabilities: ['notes'], token: 'secret' });
  assert.equal(hub.socket.url, 'ws://127.0.0.1:9473');
  assert.deepEqual(app.state, { name: 'connecting' });
  assert.deepEqual(hub.socket.sent, []);
  hub.socket.open();
  const payload = { ...ABOUT, version: '1.2.0', capabilities: ['notes'], token: 'secret' };
  assert.deepEqual(hub.socket.sent, [{ type: 'registration', payload }]);
  assert.deepEqual(app.state, { name: 'connecting' });
  hub.socket.receive({ type: 'registration_response', payload: { success: true, clientId: 'c7', message: 'hi' } });
  await app.ready;
  assert.deepEqual(app.state, { name: 'registered', clientId: 'c7' });
  assert.deepEqual(hub.states, [{ name: 'registered', clientId: 'c7' }]);
  assert.deepEqual(hub.errors, []);
  assert.deepEqual(hub.clock.pending, []);
});

test('what the app does not say is not sent', () => {
  const hub = fakeHub();
  hub.connect({});
  hub.socket.open();
  assert.deepEqual(hub.socket.sent, [{ type: 'registration', payload: ABOUT }]);
});

test('the back-off is 1, 2, 4, 8, 16, 30, 30 seconds, and only a registration resets it', () => {
  const hub = fakeHub();
  hub.connect({});
  const delays = [];
  for (let failure = 0; failure < 8; failure += 1) {
    // An open connection alone is no success.
    if (failure % 2 === 1) hub.socket.open();
    hub.socket.end();
    const { name, attempt, delay, error } = hub.states.at(-1);
    assert.deepEqual([name, attempt, error.code], ['waiting', failure + 1, 'DISCONNECTED']);
    assert.deepEqual(hub.clock.pending, [delay]);
    delays.push(delay);
    hub.clock.advance(delay - 1);
    assert.equal(hub.sockets.length, failure + 1);
    hub.clock.advance(1);
    assert.equal(hub.sockets.length, failure + 2);
  }
  assert.deepEqual(delays, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  hub.socket.register();
  hub.socket.end(1001, 'shutting down');
  assert.equal(hub.states.at(-1).delay, 1000);
  assert.match(hub.states.at(-1).error.message, /1001 shutting down/);
});

test('a socket that fails without closing is given up at once', () => {
  const hub = fakeHub();
  const app = hub.connect({});
  const [failing] = hub.sockets;
  failing.onerror({});
  assert.deepEqual([app.state.name, app.state.attempt, app.state.error.code], ['waiting', 1, 'DISCONNECTED']);
  failing.onerror({});
  assert.equal(app.state.attempt, 1);
  hub.clock.advance(1000);
  hub.socket.end();
  assert.equal(app.state.attempt, 2);
  assert.match(app.state.error.message, /^there is no connection to ws:.*: connection refused$/);
  hub.clock.advance(2000);
  // An open one closes by itself, and says how.
  hub.socket.register();
  hub.socket.onerror({});
  assert.equal(app.state.name, 'registered');
  hub.socket.end(1011, 'broken');
  assert.match(app.state.error.message, /1011 broken/);
});

test('a refused registration is an error with its code, closes the socket and backs off', () => {
  for (const code of ['DUPLICATE_NAME', 'ALREADY_REGISTERED', 'INVALID_NAME', 'VALIDATION_ERROR', 'SOMETHING_NEW']) {
    const hub = fakeHub();
    hub.connect({});
    hub.socket.refuse(code);
    assert.deepEqual(hub.socket.closed, { code: 4000, reason: 'registration failed' });
    assert.equal(hub.errors.length, 1);
    assert.ok(hub.errors[0] instanceof RegistrationError && hub.errors[0] instanceof HubError);
    assert.equal(hub.errors[0].code, code);
    assert.equal(hub.errors[0].name, 'RegistrationError');
    assert.match(hub.errors[0].message, new RegExp(`no: ${code}`));
    const { name, attempt, delay, error } = hub.states.at(-1);
    assert.deepEqual([name, attempt, delay, error], ['waiting', 1, 1000, hub.errors[0]]);
    // The old socket's last words are not those of the next connection.
    hub.socket.end(4000);
    assert.equal(hub.states.length, 1);
    hub.clock.advance(1000);
    hub.socket.refuse(code);
    assert.equal(hub.states.at(-1).delay, 2000);
    hub.clock.advance(2000);
    hub.socket.register();
    assert.equal(hub.states.at(-1).name, 'registered');
  }
});

test('a refusal is told before its consequence, and the app may leave when it hears of it', async () => {
  const last = fakeHub();
  last.connect({ maxAttempts: 0 });
  last.socket.refuse('DUPLICATE_NAME');
  assert.deepEqual(last.errors.map((error) => error.code), ['DUPLICATE_NAME', 'GAVE_UP']);
  const hub = fakeHub();
  const app = hub.connect({ onError: () => app.close() });
  hub.socket.refuse('DUPLICATE_NAME');
  assert.deepEqual(names(hub.states), ['closed']);
  assert.equal(hub.socket.closed.code, 1000);
  hub.socket.end(1000);
  await app.close();
  assert.deepEqual(hub.clock.pending, []);
});

test('a refusal after the registration is only reported', () => {
  const hub = fakeHub();
  const app = hub.connect({});
  hub.socket.register();
  hub.socket.receive({ type: 'registration_response', payload: { success: false, code: 'ALREADY_REGISTERED' } });
  assert.equal(app.state.name, 'registered');
  assert.deepEqual(hub.errors.map((error) => error.code), ['ALREADY_REGISTERED']);
});

test('a hub that does not answer in time is left, and what it says later is not heard', () => {
  const hub = fakeHub();
  const app = hub.connect({ registrationTimeout: 500 });
  const [silent] = hub.sockets;
  silent.open();
  hub.clock.advance(499);
  assert.equal(app.state.name, 'connecting');
  hub.clock.advance(1);
  assert.equal(hub.states.at(-1).error.code, 'REGISTRATION_TIMEOUT');
  assert.equal(silent.closed.code, 4000);
  silent.receive({ type: 'registration_response', payload: { success: true, clientId: 'late' } });
  assert.equal(app.state.name, 'waiting');
  hub.clock.advance(1000);
  silent.receive({ type: 'registration_response', payload: { success: true, clientId: 'late' } });
  assert.equal(app.state.name, 'connecting');
});

test('only a plain yes is a registration, and a second one changes nothing', () => {
  const hub = fakeHub();
  const app = hub.connect({});
  hub.socket.open();
  hub.socket.receive({ type: 'registration_response', payload: { success: 'yes', clientId: 'c1' } });
  assert.deepEqual([app.state.name, app.state.error.code], ['waiting', 'UNKNOWN']);
  hub.clock.advance(1000);
  hub.socket.register('c2');
  hub.socket.receive({ type: 'registration_response', payload: { success: true, clientId: 'c3' } });
  assert.deepEqual(app.state, { name: 'registered', clientId: 'c2' });
});

test('after the last attempt it gives up with the reason', async () => {
  const hub = fakeHub();
  const app = hub.connect({ maxAttempts: 2 });
  for (const delay of [1000, 2000]) {
    hub.socket.end();
    hub.clock.advance(delay);
  }
  hub.socket.end();
  assert.deepEqual(names(hub.states), ['waiting', 'connecting', 'waiting', 'connecting', 'closed']);
  assert.equal(app.state.error.code, 'GAVE_UP');
  assert.equal(app.state.error.cause.code, 'DISCONNECTED');
  assert.deepEqual(hub.errors, [app.state.error]);
  await assert.rejects(app.ready, app.state.error);
  assert.deepEqual(hub.clock.pending, []);
  await app.close();
});

test('a registration gives all attempts back', () => {
  const hub = fakeHub();
  const app = hub.connect({ maxAttempts: 1 });
  for (let round = 0; round < 3; round += 1) {
    hub.socket.register();
    hub.socket.end();
    hub.clock.advance(1000);
  }
  assert.equal(app.state.name, 'connecting');
  hub.socket.end();
  assert.equal(app.state.name, 'closed');
});

test('closing leaves with 1000 and waits for the goodbye', async () => {
  const hub = fakeHub();
  const app = hub.connect({});
  hub.socket.register();
  let left = false;
  const leaving = app.close().then(() => (left = true));
  assert.deepEqual(hub.socket.closed, { code: 1000, reason: 'client disconnect' });
  assert.deepEqual(app.state, { name: 'closed' });
  await settled();
  assert.equal(left, false);
  hub.socket.end(1000);
  await leaving;
  await app.close();
  assert.deepEqual(names(hub.states), ['registered', 'closed']);
  assert.deepEqual(hub.clock.pending, []);
  assert.equal(hub.sockets.length, 1);
});

test('a hub that does not say goodbye is not waited for', async () => {
  const hub = fakeHub();
  const app = hub.connect({});
  hub.socket.register();
  const leaving = app.close();
  hub.clock.advance(2000);
  await leaving;
});

test('closing ends the back-off, and fails whoever waits for the first registration', async () => {
  const hub = fakeHub();
  const app = hub.connect({});
  hub.socket.end();
  await app.close();
  assert.deepEqual(hub.clock.pending, []);
  await assert.rejects(app.ready, { code: 'CLOSED' });
});

test('closing is possible inside every callback', async () => {
  for (const moment of ['waiting', 'connecting', 'registered', 'closed']) {
    const hub = fakeHub();
    const app = hub.connect({ maxAttempts: 1, onState: ({ name }) => name === moment && app.close() });
    hub.socket.end();
    hub.clock.advance(1000);
    if (moment === 'registered') hub.socket.register();
    else if (hub.sockets.length === 2) hub.socket.end();
    hub.socket.end(1000);
    await app.close();
    assert.equal(app.state.name, 'closed', moment);
    assert.deepEqual(hub.clock.pending, [], moment);
  }
});

test('frames that cannot be read are reported and cost nothing else', () => {
  const hub = fakeHub();
  const seen = [];
  const app = hub.connect({ onMessage: ({ text }) => void seen.push(text) });
  hub.socket.register();
  const bad = ['{', 'null', '7', '[1', '{"type":"message","payload":null}', '{"type":"error"}'];
  const incomplete = [message(7), message(''), message('m', 5), { type: 'registration_response', payload: 'yes' }];
  for (const frame of [...bad, ...incomplete]) hub.socket.receive(frame);
  hub.socket.onmessage({ data: new ArrayBuffer(4) });
  assert.deepEqual(new Set(hub.errors.map((error) => error.code)), new Set(['MALFORMED_FRAME']));
  assert.equal(hub.errors.length, bad.length + incomplete.length + 1);
  hub.socket.receive({ type: 'news', payload: {} });
  hub.socket.receive({ type: 'error', payload: { code: 'VALIDATION_ERROR', message: 'what?' } });
  assert.deepEqual([hub.errors.at(-1).code, hub.errors.at(-1).message], ['VALIDATION_ERROR', 'the hub reports: what?']);
  assert.equal(hub.errors.length, bad.length + incomplete.length + 2);
  hub.socket.receive(message('m1', 'still here'));
  assert.deepEqual(seen, ['still here']);
  assert.equal(app.state.name, 'registered');
});

test('a socket that cannot be made anew is a failed attempt; the first one throws', () => {
  const hub = fakeHub();
  let broken = false;
  const { WebSocket } = class {
    static WebSocket = class {
      constructor() {
        if (broken) throw new Error('no sockets today');
        this.readyState = 0;
      }
      close() {}
    };
  };
  const app = hub.connect({ WebSocket, registrationTimeout: 10 });
  broken = true;
  hub.clock.advance(10 + 1000);
  assert.deepEqual([app.state.name, app.state.attempt, app.state.error.code], ['waiting', 2, 'DISCONNECTED']);
  assert.equal(app.state.error.cause.message, 'no sockets today');
  assert.throws(() => fakeHub().connect({ WebSocket }), /no sockets today/);
});

test('options that cannot be right are refused at once', () => {
  const wrong = [
    ...['', '9lives', 'a b', 'ümlaut', 'a'.repeat(65), 5, undefined].map((name) => ({ name })),
    ...['', ' \n', 'x'.repeat(1025), null].map((description) => ({ description })),
    ...[5, null].map((version) => ({ version })),
    ...['notes', [1]].map((capabilities) => ({ capabilities })),
    { token: '' },
    { url: 'http://127.0.0.1:9473' },
    { WebSocket: {} },
    { onMessage: undefined },
    { onState: 'log' },
    { onError: 'log' },
    { maxAttempts: -1 },
    { maxRunning: 0 },
    { maxQueued: Number.NaN },
    { maxRemembered: '9' },
    { registrationTimeout: 0 },
  ];
  for (const options of wrong) {
    const [name] = Object.keys(options);
    const expected = { name: 'TypeError', message: new RegExp(`^\`${name}\` must be`) };
    const hub = fakeHub();
    assert.throws(() => hub.connect(options), expected, JSON.stringify(options));
    assert.equal(hub.sockets.length, 0);
  }
  // Both limits are inclusive.
  fakeHub().connect({ name: 'a'.repeat(64), description: 'x'.repeat(1024) });
});

test('without any WebSocket the error says what to do', (t) => {
  const { WebSocket } = globalThis;
  delete globalThis.WebSocket;
  t.after(() => Object.assign(globalThis, WebSocket && { WebSocket }));
  assert.throws(() => connect({ ...ABOUT, onMessage: () => {} }), /package `ws`/);
});
