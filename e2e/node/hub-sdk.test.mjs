// The client package of `sdk/js`, with the sockets of `ws`, against a real hub: also when that is killed.

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { RegistrationError, connect } from '../../sdk/js/src/index.js';
import { LONGEST_WAIT, NOTEBOOK, TIMEOUT, WebSocket, eventually, hubUrl, reaches, startHub, submit } from './hub.mjs';
import { gate } from './model.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);
const NOTEBOOK_EXAMPLE = 'sdk/js/examples/notebook/notebook.mjs';

/** An app that leaves with the test `t`, and what happened to it. */
function start(t, hub, options) {
  const states = [];
  const errors = [];
  const waiters = [];
  const app = connect({
    ...NOTEBOOK,
    url: hub && hubUrl(hub),
    WebSocket,
    onMessage: () => {},
    onError: (error) => errors.push(error),
    ...options,
    onState(state) {
      states.push(state);
      for (const waiter of waiters.splice(0)) waiter();
    },
  });
  t.after(() => app.close());
  /** The next time it is in this state, or now. */
  const becomes = async (name) => {
    while (app.state.name !== name) await new Promise((resolve) => waiters.push(resolve));
  };
  return { app, states, errors, becomes };
}

test('messages are acknowledged, rejected and followed by notifications', async (t) => {
  const hub = await startHub(t);
  const seen = [];
  const { app, errors } = start(t, hub, {
    onMessage({ text, metadata, notify }) {
      seen.push([text, metadata.directRouted]);
      if (text === 'fail') throw new Error('I cannot do that');
      notify({ title: 'Noted', body: text, priority: 'low' });
    },
  });
  await app.ready;
  const good = await submit(hub, 'notebook: buy milk', { wait: LONGEST_WAIT });
  assert.equal(good.state, 'delivered');
  const { notifications } = await eventually(hub, good.id, (message) => message.notifications.length > 0);
  const [{ client, title, body, priority }] = notifications;
  assert.deepEqual([client, title, body, priority], ['notebook', 'Noted', 'buy milk', 'low']);

  const bad = await submit(hub, 'notebook: fail', { wait: LONGEST_WAIT });
  assert.equal(bad.state, 'held');
  const { attempts } = await reaches(hub, bad.id, 'held');
  assert.deepEqual([attempts[0].client, attempts[0].reason], ['notebook', 'I cannot do that']);
  assert.deepEqual(seen, [['buy milk', true], ['fail', true]]);
  assert.deepEqual(errors.map((error) => error.code), ['HANDLER_FAILED']);
});

test('killed while a message is handled, the hub sends it again and it is handled once', async (t) => {
  const hub = await startHub(t);
  const work = gate();
  const sent = [];
  const [first, second] = [gate(), gate()];
  class Watched extends WebSocket {
    constructor(url) {
      super(url);
      this.on('message', (data) => {
        const { type, payload } = JSON.parse(data);
        if (type === 'message') [first, second][sent.push(payload) - 1]?.open();
      });
    }
  }
  const handled = [];
  const { app, becomes } = start(t, hub, {
    WebSocket: Watched,
    onMessage(message) {
      handled.push(message);
      return work.opened;
    },
  });
  await app.ready;
  const { id } = await submit(hub, 'notebook: buy milk');
  await first.opened;
  await hub.kill();
  await becomes('waiting');
  await hub.start();
  await second.opened;
  work.open();
  const { attempts } = await reaches(hub, id, 'delivered');
  assert.ok(attempts.every((attempt) => attempt.client === 'notebook'), JSON.stringify(attempts));
  assert.deepEqual(sent.map((message) => [message.id, message.text]), [[id, 'buy milk'], [id, 'buy milk']]);
  assert.notEqual(sent[0].timestamp, sent[1].timestamp);
  assert.deepEqual(handled.map((message) => [message.id, message.answer]), [[id, 'ack']]);
});

test('an answer given while the hub is down arrives when it is back', async (t) => {
  const hub = await startHub(t);
  const started = gate();
  const work = gate();
  const { app, becomes } = start(t, hub, {
    async onMessage(message) {
      message.ack();
      started.open(message);
      await work.opened;
      message.notify({ body: 'Bought.' });
    },
  });
  await app.ready;
  const { id } = await submit(hub, 'notebook: buy milk');
  await started.opened;
  await reaches(hub, id, 'delivered');
  await hub.kill();
  await becomes('waiting');
  work.open();
  await hub.start();
  await becomes('registered');
  const { state, notifications } = await eventually(hub, id, (message) => message.notifications.length > 0);
  assert.deepEqual([state, notifications[0].body], ['delivered', 'Bought.']);
});

test('a message submitted before a kill reaches an app that comes after it', async (t) => {
  const hub = await startHub(t);
  const { id } = await submit(hub, 'notebook: buy milk');
  await hub.kill();
  await hub.start();
  const seen = gate();
  start(t, hub, { onMessage: (message) => void seen.open(message) });
  const message = await seen.opened;
  assert.deepEqual([message.id, message.text], [id, 'buy milk']);
  await reaches(hub, id, 'delivered');
});

test('a name that is taken is a typed error, and the app is let in when the name is free', async (t) => {
  const hub = await startHub(t);
  const first = start(t, hub);
  await first.app.ready;
  const second = start(t, hub, { name: 'NoteBook' });
  await second.becomes('waiting');
  assert.ok(second.errors[0] instanceof RegistrationError);
  assert.equal(second.errors[0].code, 'DUPLICATE_NAME');
  assert.equal(second.states[0].delay, 1000);
  await first.app.close();
  await second.app.ready;
  assert.equal(second.app.state.name, 'registered');
});

test('where apps need a token, the one made for the app lets it in', async (t) => {
  const hub = await startHub(t, { config: '[hub]\npairing = "token"\n' });
  const errors = [];
  for (const token of [undefined, 'f'.repeat(64)]) {
    const { app } = start(t, hub, { ...(token && { token }), maxAttempts: 0, onError: (error) => errors.push(error) });
    await assert.rejects(app.ready, { code: 'GAVE_UP' });
  }
  const refused = errors.filter((error) => error instanceof RegistrationError);
  assert.deepEqual(refused.map((error) => error.code), ['VALIDATION_ERROR', 'VALIDATION_ERROR']);
  const { stdout } = await run(hub.command()[0], ['hub', 'pair', 'notebook', '--data-dir', hub.dataDir]);
  const [token] = stdout.match(/\b[0-9a-f]{64}\b/) ?? assert.fail(stdout);
  const seen = [];
  const { app } = start(t, hub, { token, onMessage: ({ text }) => void seen.push(text) });
  await app.ready;
  // The user needs a right of their own here, which the command finds in the data directory.
  await run(hub.command()[0], ['hub', 'send', 'notebook: buy milk', '--wait', '--data-dir', hub.dataDir]);
  assert.deepEqual(seen, ['buy milk']);
});

test('`patchboard hub check` has nothing to improve', async (t) => {
  const args = ['hub', 'check', 'ws://127.0.0.1:0', '--timeout', '60', '--json'];
  const check = spawn(path.resolve(process.env.PATCHBOARD_BIN), args, { stdio: ['ignore', 'pipe', 'ignore'] });
  t.after(() => check.kill('SIGKILL'));
  const lines = [];
  const output = createInterface({ input: check.stdout }).on('line', (line) => lines.push(JSON.parse(line)));
  const ended = once(check, 'close', { signal: AbortSignal.timeout(2 * TIMEOUT) });
  await once(output, 'line', { signal: AbortSignal.timeout(TIMEOUT) });
  const url = lines[0].listening;
  start(t, null, { url, onMessage: ({ text, notify }) => notify(text) });
  assert.deepEqual(await ended, [0, null], JSON.stringify(lines));
  const { conforms, summary } = lines.at(-1);
  assert.deepEqual([conforms, summary.warn, summary.wrong], [true, 0, 0], JSON.stringify(lines));
});

test('what follows a question goes to the app that asked', async (t) => {
  const hub = await startHub(t);
  const seen = [];
  const { app } = start(t, hub, {
    onMessage({ text, notify }) {
      seen.push(text);
      notify(seen.length === 1 ? { body: 'Which colour', expectsReply: true } : 'Noted.');
    },
  });
  const other = start(t, hub, { name: 'lamps', description: 'I switch the lights at home on and off.' });
  await Promise.all([app.ready, other.app.ready]);
  const { id } = await submit(hub, 'notebook: buy paint');
  await eventually(hub, id, (message) => message.state === 'delivered' && message.notifications.length > 0);
  const followUp = await submit(hub, 'the blue one', { wait: LONGEST_WAIT });
  assert.equal(followUp.state, 'delivered');
  assert.deepEqual(seen, ['buy paint', 'the blue one']);
});

test('an app that left gets nothing any more', async (t) => {
  const hub = await startHub(t);
  const seen = [];
  const { app, states } = start(t, hub, { onMessage: ({ id }) => void seen.push(id) });
  await app.ready;
  await app.close();
  assert.deepEqual(states.map((state) => state.name), ['registered', 'closed']);
  const { id } = await submit(hub, 'notebook: buy milk');
  // It may be sent to the connection that is just closing; then it comes back.
  await eventually(hub, id, ({ state }) => ['queued', 'held'].includes(state));
  assert.deepEqual(seen, []);
});

test('the notebook example takes notes, asks before it forgets one, and leaves when told', async (t) => {
  const hub = await startHub(t);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'notebook-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'notes.md');
  const preload = new URL('hub-websocket.mjs', import.meta.url).href;
  const args = ['--import', preload, NOTEBOOK_EXAMPLE, file, hubUrl(hub)];
  const notebook = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => notebook.kill('SIGKILL'));
  const lines = createInterface({ input: notebook.stdout });
  assert.deepEqual(await once(lines, 'line', { signal: AbortSignal.timeout(TIMEOUT) }), ['registered']);

  const say = async (text) => {
    const { id, state } = await submit(hub, `notebook: ${text}`, { wait: LONGEST_WAIT });
    assert.equal(state, 'delivered');
    return eventually(hub, id, (message) => message.notifications.length > 0);
  };
  const milk = await say('buy milk');
  await say('call Ada');
  const notes = fs.readFileSync(file, 'utf8');
  assert.match(notes, /^- buy milk <!-- msg-[0-9a-f-]+ -->\n- call Ada <!-- msg-[0-9a-f-]+ -->\n$/);
  assert.ok(notes.includes(milk.id));
  assert.equal((await say('show')).notifications[0].body, 'buy milk\ncall Ada');
  assert.equal((await say('forget the last one')).notifications[0].body, 'call Ada');
  // The answer names nobody.
  const { state } = await submit(hub, 'yes please', { wait: LONGEST_WAIT });
  assert.equal(state, 'delivered');
  assert.equal(fs.readFileSync(file, 'utf8'), notes.split('\n')[0] + '\n');

  const ended = once(notebook, 'exit', { signal: AbortSignal.timeout(TIMEOUT) });
  notebook.kill('SIGTERM');
  assert.deepEqual(await ended, [0, null]);
});
