// Streams with the `ws` client: order of events, many at once, approval, cancel, attach, and a killed server.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { connect } from './client.mjs';
import { call, gate, startModel } from './model.mjs';
import { startServer } from './server.mjs';

const SESSION = 'default:websocket:alice:main';

async function setUp(t, script, more) {
  const model = await startModel(t, ...script);
  const server = await startServer(t, { config: model.config(more) });
  return { model, server, gateway: await connect(t, server) };
}

const said = (request) => request.body.messages.filter((one) => one.role !== 'system').map((one) => one.content);

test('a tool round has the document\'s order of events', async (t) => {
  const { server, gateway } = await setUp(t, [['let me ', 'look', call('read', { path: 'note.txt' })], ['it says hi']]);
  fs.writeFileSync(path.join(server.folder, 'note.txt'), 'hi from the file');
  const turn = await gateway.chat('read my note');
  assert.deepEqual(turn.outline, ['text', 'tool_use', 'usage', 'tool_result', 'text', 'usage', 'done']);
  assert.match(turn.data('tool_result')[0].content, /hi from the file/);
  assert.equal(await gateway.result('ping'), 'pong');
  assert.deepEqual(gateway.seen, [], 'nothing follows done');
});

test('ping is answered during a stream, and two sessions interleave', async (t) => {
  const [first, second] = [gate(), gate()];
  const { gateway } = await setUp(t, [['a1', first.opened, 'a2'], ['b1', second.opened, 'b2']]);
  const alice = gateway.start('hi');
  assert.equal((await gateway.nextOf(alice)).data, 'a1');
  const bob = gateway.start('hi', { account: 'bob' });
  assert.equal((await gateway.nextOf(bob)).data, 'b1');
  assert.equal(await gateway.result('ping'), 'pong');
  second.open();
  assert.equal((await gateway.turn(bob)).text, 'b2');
  first.open();
  assert.equal((await gateway.turn(alice)).text, 'a2');
});

test('one session runs one turn at a time, and the second knows the first', async (t) => {
  const first = gate();
  const { model, gateway } = await setUp(t, [['the answer ', first.opened, 'is 42']]);
  const requests = [gateway.start('what is it?'), gateway.start('again')];
  assert.equal((await gateway.nextOf(requests[0])).data, 'the answer ');
  assert.equal(model.requests.length, 1);
  first.open();
  for (const request of requests) assert.equal((await gateway.turn(request)).events.at(-1), 'done');
  assert.deepEqual(said(model.requests[1]), ['what is it?', 'the answer is 42', 'again']);
});

test('the tenth request of a session is told that it is busy, and a live id is refused', async (t) => {
  const first = gate();
  const { gateway } = await setUp(t, [[first.opened, 'first']]);
  const requests = Array.from({ length: 9 }, (_, at) => gateway.start(`message ${at}`));
  const params = { channel: 'websocket', account: 'alice', content: 'too many' };
  assert.match(await gateway.error('chat.send', params), /session busy/);
  gateway.send({ id: requests[8], method: 'chat.send', params: { ...params, account: 'bob' } });
  assert.ok('error' in (await gateway.nextOf(requests[8])));
  first.open();
  for (const request of requests) assert.equal((await gateway.turn(request)).events.at(-1), 'done');
});

test('two hundred requests in one go are all answered', async (t) => {
  const { gateway } = await setUp(t, []);
  const answers = await Promise.all(Array.from({ length: 200 }, () => gateway.answer('status')));
  assert.ok(answers.every((answer) => 'result' in answer));
  const chats = Array.from({ length: 100 }, (_, at) => gateway.chat(`I am ${at}`, { account: `a${at}` }));
  const turns = await Promise.all(chats);
  turns.forEach((turn, at) => assert.equal(turn.text, `echo: I am ${at}`));
});

test('a tool that must be asked for waits for the answer', async (t) => {
  const asking = [[call('read', { path: 'note.txt' })], ['I see']];
  const { server, gateway } = await setUp(t, [...asking, ...asking], '[tools.approval]\nread = "ask"\n');
  fs.writeFileSync(path.join(server.folder, 'note.txt'), 'what the note says');
  for (const approve of [true, false]) {
    const request = gateway.start('read it');
    const { data } = (await gateway.until(request, 'approval')).at(-1);
    assert.deepEqual([data.name, data.input], ['read', { path: 'note.txt' }]);
    const other = await connect(t, server);
    assert.ok(await other.error('approval.answer', { approval_id: data.approval_id, approve: true }));
    await gateway.result('approval.answer', { approval_id: data.approval_id, approve });
    const turn = await gateway.turn(request);
    assert.equal(turn.data('tool_result')[0].is_error, !approve);
    assert.equal(turn.text, 'I see');
  }
});

test('a cancelled stream ends with done and the model is hung up on', async (t) => {
  const { model, gateway } = await setUp(t, [['on and on', gate().opened]]);
  const request = gateway.start('talk');
  await gateway.until(request, 'text');
  await gateway.result('chat.cancel', { id: request });
  assert.equal((await gateway.turn(request)).events.at(-1), 'done');
  assert.equal(await model.requests[0].gone, true);
  assert.deepEqual((await gateway.result('chat.history', { session: SESSION })).items, []);
});

test('after a lost connection the rest of a stream comes without a gap or a duplicate', async (t) => {
  const words = Array.from({ length: 12 }, (_, at) => `w${at} `);
  const pause = gate();
  const { server, gateway } = await setUp(t, [[...words.slice(0, 6), pause.opened, ...words.slice(6)]]);
  const request = gateway.start('go');
  const before = [];
  while (before.length < 4) before.push(await gateway.nextOf(request));
  gateway.socket.terminate();
  const back = await connect(t, server);
  const attached = back.ask('chat.attach', { session: SESSION, after: before.at(-1).seq });
  const first = await back.nextOf(attached);
  pause.open();
  const rest = [first, ...(await back.turn(attached)).frames];
  const text = [...before, ...rest].filter((frame) => frame.event === 'text').map((frame) => frame.data);
  assert.equal(text.join(''), words.join(''));
  assert.equal(rest.at(-1).event, 'done');
});

test('a killed server keeps every turn that was done, and no half turn', async (t) => {
  const { server, gateway } = await setUp(t, [['kept'], ['half', gate().opened]]);
  await gateway.chat('one');
  await gateway.until(gateway.start('two'), 'text');
  await server.kill();
  await server.restart();
  const back = await connect(t, server);
  const { items } = await back.result('chat.history', { session: SESSION });
  assert.deepEqual(items.map((item) => item.content), ['one', 'kept']);
  const turn = await back.turn(back.ask('chat.attach', { session: SESSION, after: 0 }));
  assert.deepEqual(turn.events.slice(-2), ['error', 'done']);
  assert.equal((await back.chat('three')).text, 'echo: three');
  const [row] = (await back.result('usage.report', {})).items;
  assert.deepEqual([row.calls, row.estimated_calls], [3, 1]);
});
