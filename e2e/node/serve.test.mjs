// `patchboard serve` with the `ws` client: it connects, is greeted and gets an answer.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';

import { load } from './packages.mjs';
import { startServer } from './server.mjs';

const WebSocket = load('ws');

test('the ready file names the gateway, and the gateway is healthy', async (t) => {
  const server = await startServer(t);
  assert.equal(server.ready.pid, server.pid);
  assert.equal(await (await fetch(`${server.httpUrl}/health`)).text(), 'ok');
  assert.equal(await server.terminate(), 0);
});

test('a ws client is greeted and its ping is answered', async (t) => {
  const server = await startServer(t);
  const socket = new WebSocket(server.wsUrl);
  t.after(() => socket.terminate());
  const hello = JSON.parse((await once(socket, 'message'))[0]);
  assert.deepEqual(hello, { ok: true, version: server.ready.version });
  socket.send(JSON.stringify({ id: '1', method: 'ping' }));
  const answer = JSON.parse((await once(socket, 'message'))[0]);
  assert.equal(answer.id, '1');
  assert.ok('result' in answer, JSON.stringify(answer));
});

test('it comes back after a kill', async (t) => {
  const server = await startServer(t);
  await server.kill();
  await server.restart();
  assert.equal(await (await fetch(`${server.httpUrl}/health`)).text(), 'ok');
});
