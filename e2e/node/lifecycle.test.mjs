// The gateway document's lifecycle with the `ws` client: greeting, token, requests, a first chat, and its failures.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connect, refusal } from './client.mjs';
import { startServer } from './server.mjs';

const TOKEN = '0123456789abcdef0123456789abcdef';
// No token within `auth_timeout` closes the connection; longer than any test takes.
const WITH_TOKEN = {
  config: '[gateway]\ntoken = "env:GATEWAY_TOKEN"\n[limits]\nauth_timeout = "10m"\n',
  env: { GATEWAY_TOKEN: TOKEN },
};
// How long the document's browser client waits for a greeting before it asks its user for a token.
const GREETING_WITHIN = 800;

test('without a token the greeting comes at once, and closing is answered', async (t) => {
  const server = await startServer(t);
  const gateway = await connect(t, server);
  assert.deepEqual(gateway.greeting, { ok: true, version: server.ready.version });
  gateway.socket.close(1000);
  assert.equal(await gateway.closed, 1000);
});

test('with a token the server is silent until it comes', async (t) => {
  const server = await startServer(t, WITH_TOKEN);
  const gateway = await connect(t, server, { greet: false });
  await assert.rejects(gateway.nextFrame(undefined, GREETING_WITHIN), /no such frame/);
  gateway.send({ token: TOKEN });
  assert.deepEqual(await gateway.nextFrame(), { ok: true, version: server.ready.version });
  assert.equal(await gateway.result('ping'), 'pong');
});

test('anything but the token is refused and closed with 4001', async (t) => {
  const server = await startServer(t, WITH_TOKEN);
  const request = { id: '1', method: 'ping' };
  const firsts = [{ token: 'wrong' }, { token: '' }, { token: 5 }, request, 'nonsense', Buffer.from(TOKEN)];
  for (const first of firsts) {
    const gateway = await connect(t, server, { greet: false });
    gateway.send(first);
    assert.deepEqual(await gateway.nextFrame(), { error: 'auth_failed', code: 4001 });
    assert.equal(await gateway.closed, 4001);
  }
});

test('a page of another site is refused before the upgrade', async (t) => {
  const server = await startServer(t);
  assert.equal(await refusal(server, { origin: 'https://evil.example' }), 403);
  assert.equal(await refusal(server, { headers: { origin: 'null' } }), 403);
  assert.equal(await refusal(server, { headers: { host: 'evil.example' } }), 403);
  const gateway = await connect(t, server, { origin: 'http://localhost:3000' });
  assert.equal(await gateway.result('ping'), 'pong');
});

test('ping, status and plugin.list answer as the document says', async (t) => {
  const server = await startServer(t);
  const gateway = await connect(t, server);
  assert.deepEqual(await gateway.answer('ping'), { id: 'n1', result: 'pong' });
  assert.deepEqual(await gateway.result('status'), { version: server.ready.version, plugins: 0, sessions: 0 });
  assert.deepEqual(await gateway.result('plugin.list'), []);
  assert.equal(await gateway.error('nope'), 'unknown method: nope');
});

test('numbers are taken as ids and echoed as text', async (t) => {
  const gateway = await connect(t, await startServer(t));
  for (const [sent, echoed] of [['1', '1'], ['1.5', '1.5'], ['-3', '-3'], ['"x"', 'x'], ['""', '']]) {
    gateway.send(`{"id":${sent},"method":"ping"}`);
    assert.deepEqual(await gateway.nextFrame(), { id: echoed, result: 'pong' });
  }
});

test('a malformed request is an error with id 0, and the connection stays', async (t) => {
  const gateway = await connect(t, await startServer(t));
  for (const text of ['{', '', '[]', '{"method":"ping"}', '{"id":null,"method":"ping"}', '{"id":"1","method":5}']) {
    gateway.send(text);
    const frame = await gateway.nextFrame();
    assert.equal(frame.id, '0');
    assert.match(frame.error, /^parse error: /);
    assert.ok(!('result' in frame));
  }
  gateway.send(Buffer.from('binary frames are ignored'));
  assert.equal(await gateway.result('ping'), 'pong');
});

test('a fresh server streams an answer, calls a tool and remembers the turn', async (t) => {
  const gateway = await connect(t, await startServer(t));
  const turn = await gateway.chat('hello');
  assert.deepEqual(turn.outline, ['text', 'usage', 'done']);
  assert.ok(turn.data('text').length > 1);
  assert.ok(turn.data('usage')[0].input_tokens > 0 && turn.data('usage')[0].output_tokens > 0);
  const called = await gateway.chat('/call ls {"path": "."}');
  const [use] = called.data('tool_use');
  const [outcome] = called.data('tool_result');
  assert.equal(use.name, 'ls');
  assert.deepEqual([outcome.tool_use_id, outcome.is_error], [use.id, false]);
  assert.equal(called.events.at(-1), 'done');
  const failed = await gateway.chat('/call no_such_tool {}');
  assert.equal(failed.data('tool_result')[0].is_error, true);
  assert.equal(failed.events.at(-1), 'done');
  const { items } = await gateway.result('chat.history', { channel: 'websocket', account: 'alice', peer: null });
  assert.deepEqual(items.slice(0, 2).map((item) => item.content), ['hello', turn.text]);
});

test('a refused budget and wrong params are plain errors', async (t) => {
  const gateway = await connect(t, await startServer(t, { config: '[budgets]\nsession = 1\n' }));
  const params = { channel: 'websocket', account: 'alice', content: 'hi' };
  assert.match(await gateway.error('chat.send', params), /^token budget exceeded \(session: 0\/1\): /);
  assert.equal(
    await gateway.error('chat.send', { channel: 'websocket', account: 'alice' }),
    'invalid chat.send params: missing field `content`',
  );
});

test('an unreachable provider is an error, then done', async (t) => {
  const config = '[providers.main]\nkind = "openai"\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\n';
  const gateway = await connect(t, await startServer(t, { config }));
  const turn = await gateway.chat('hi');
  assert.deepEqual(turn.events, ['error', 'done']);
  assert.match(turn.data('error')[0], /^provider error: .*refused/);
});
