// The hub's document with the `ws` client: registration, messages, answers, health, and what a bad client sends.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';

import {
  LONGEST_WAIT,
  NOTEBOOK,
  TIMEOUT,
  connect,
  eventually,
  lookUp,
  reaches,
  refusal,
  register,
  startHub,
  submit,
} from './hub.mjs';

const LARGEST = 1_048_576;
const UUID = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const named = (name) => ({ ...NOTEBOOK, name });

test('a client registers, gets a message and acknowledges it', async (t) => {
  const hub = await startHub(t);
  const notebook = await connect(t, hub);
  const about = { ...NOTEBOOK, version: '1.0.0', capabilities: ['notes'] };
  const registered = await notebook.register(about);
  assert.equal(registered.success, true);
  assert.match(registered.clientId, new RegExp(`^${UUID}$`));
  assert.equal(typeof registered.message, 'string');

  const before = Date.now();
  const { id } = await submit(hub, 'notebook: remember to buy milk');
  const message = await notebook.message();
  assert.match(message.id, new RegExp(`^msg-${UUID}$`));
  assert.equal(message.id, id);
  assert.equal(message.text, 'remember to buy milk');
  assert.match(message.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  const sentAt = Date.parse(message.timestamp);
  assert.ok(before - 1000 <= sentAt && sentAt <= Date.now() + 1000, message.timestamp);
  assert.deepEqual(message.metadata, { inputMethod: 'text', directRouted: true });
  assert.equal((await lookUp(hub, id)).state, 'sent');
  notebook.ack(id);
  const delivered = await reaches(hub, id, 'delivered');
  assert.deepEqual(delivered.attempts.map((attempt) => attempt.client), ['notebook']);
});

test('either sign and any case address a client, and spoken words say how sure they are', async (t) => {
  const hub = await startHub(t);
  const notebook = await register(t, hub, NOTEBOOK);
  for (const text of ['NoteBook, buy milk', 'NOTEBOOK:buy milk', 'notebook: buy milk']) {
    await submit(hub, text);
    const message = await notebook.message();
    assert.deepEqual([message.text, message.metadata.directRouted], ['buy milk', true]);
    notebook.ack(message.id);
  }
  await submit(hub, 'notebook: buy milk', { inputMethod: 'voice', confidence: 0.75 });
  const { metadata } = await notebook.message();
  assert.deepEqual(metadata, { inputMethod: 'voice', directRouted: true, confidence: 0.75 });
});

test('a client whose description fits gets the message with the user’s own words and a reason', async (t) => {
  const hub = await startHub(t);
  const notebook = await register(t, hub, NOTEBOOK);
  const lamps = await register(t, hub, { name: 'lamps', description: 'I switch the lights at home on and off.' });
  await submit(hub, 'Please switch the lights off');
  const message = await lamps.message();
  assert.equal(message.text, 'Please switch the lights off');
  assert.equal(message.metadata.directRouted, false);
  assert.equal(typeof message.metadata.routingReason, 'string');
  lamps.ack(message.id);
  await reaches(hub, message.id, 'delivered');
  assert.deepEqual(notebook.seen, []);
});

test('a rejected message goes to the next client under the same id, and rejected by all it is refused', async (t) => {
  const hub = await startHub(t, { config: '[hub]\nreroute_direct = true\n' });
  const notebook = await register(t, hub, NOTEBOOK);
  const lamps = await register(t, hub, { name: 'lamps', description: 'I switch the lights at home on and off.' });
  const { id } = await submit(hub, 'notebook: switch the lights off');
  assert.equal((await notebook.message()).id, id);
  notebook.reject(id, 'I have no lights');
  const second = await lamps.message();
  assert.deepEqual([second.id, second.text], [id, 'switch the lights off']);
  lamps.respond(id, 'reject');
  const { attempts } = await reaches(hub, id, 'refused');
  assert.deepEqual(attempts.map((attempt) => attempt.client), ['notebook', 'lamps']);
  assert.equal(attempts[0].reason, 'I have no lights');
});

test('an acknowledgement may be followed by any number of notifications', async (t) => {
  const hub = await startHub(t);
  const notebook = await register(t, hub, NOTEBOOK);
  const { id } = await submit(hub, 'notebook: buy milk');
  await notebook.message();
  notebook.ack(id);
  notebook.notify(id, { title: 'Note Saved', body: 'It is in the journal.', priority: 'high' });
  notebook.notify(id, { body: 'And filed.' });
  notebook.notify(id, { title: 'Done', priority: 'low' });
  const { state, notifications } = await eventually(hub, id, (message) => message.notifications.length === 3);
  assert.equal(state, 'delivered');
  const shown = notifications.map(({ client, title, body, priority }) => [client, title, body ?? '', priority]);
  assert.deepEqual(shown, [
    ['notebook', 'Note Saved', 'It is in the journal.', 'high'],
    ['notebook', 'notebook', 'And filed.', 'normal'],
    ['notebook', 'Done', '', 'low'],
  ]);
});

test('whoever submits may wait for the answer', async (t) => {
  const hub = await startHub(t);
  const notebook = await register(t, hub, NOTEBOOK);
  const submitted = submit(hub, 'notebook: buy milk', { wait: LONGEST_WAIT });
  const { id } = await notebook.message();
  notebook.ack(id);
  await reaches(hub, id, 'delivered');
  notebook.notify(id, { body: 'Noted.' });
  const { state, notifications } = await submitted;
  assert.deepEqual([state, notifications.map(({ body }) => body)], ['delivered', ['Noted.']]);
});

test('pings are answered by the library, and a client that does not answer is dropped', async (t) => {
  const hub = await startHub(t, { config: '[hub]\nping_interval = "200ms"\npong_timeout = "2s"\n' });
  const notebook = await register(t, hub, NOTEBOOK);
  const deaf = await register(t, hub, named('deaf'), { autoPong: false });
  assert.equal(await deaf.closed, 1006);
  for (let ping = 0; ping < 3; ping += 1) await once(notebook.socket, 'ping', { signal: AbortSignal.timeout(TIMEOUT) });
  const { id } = await submit(hub, 'notebook: still here?');
  assert.equal((await notebook.message()).id, id);
  // A client's own pings are answered too.
  notebook.socket.ping('x');
  assert.equal(String((await once(notebook.socket, 'pong'))[0]), 'x');
});

test('a message for a client that is away waits, and one it left behind comes again under its id', async (t) => {
  const hub = await startHub(t);
  const first = await register(t, hub, NOTEBOOK);
  const { id } = await submit(hub, 'notebook: buy milk');
  const before = await first.message();
  first.socket.terminate();
  await eventually(hub, id, (message) => message.state !== 'sent');

  const second = await register(t, hub, NOTEBOOK);
  const again = await second.message();
  assert.deepEqual([again.id, again.text], [id, 'buy milk']);
  assert.notEqual(again.timestamp, before.timestamp);
  second.ack(id);
  await reaches(hub, id, 'delivered');

  second.socket.close(1000);
  assert.equal(await second.closed, 1000);
  const later = await submit(hub, 'notebook: buy bread');
  // It may be sent to the connection that is just closing; then it comes back.
  await eventually(hub, later.id, ({ state }) => ['queued', 'held'].includes(state));
  const third = await register(t, hub, NOTEBOOK);
  assert.equal((await third.message()).id, later.id);
  third.ack(later.id);
  await reaches(hub, later.id, 'delivered');
});

test('a client that comes back under its name may answer what it got before', async (t) => {
  const hub = await startHub(t);
  const first = await register(t, hub, NOTEBOOK);
  const { id } = await submit(hub, 'notebook: buy milk');
  await first.message();
  first.ack(id);
  await reaches(hub, id, 'delivered');
  first.socket.terminate();
  const second = await register(t, hub, NOTEBOOK);
  second.notify(id, { body: 'Bought.' });
  const { notifications } = await eventually(hub, id, (message) => message.notifications.length > 0);
  assert.equal(notifications[0].body, 'Bought.');
});

test('names are unique whatever their case, and a failed registration leaves the connection usable', async (t) => {
  const hub = await startHub(t);
  const first = await register(t, hub, named('Notebook'));
  const second = await connect(t, hub);
  for (const name of ['Notebook', 'notebook', 'NOTEBOOK']) {
    const { success, code } = await second.register(named(name));
    assert.deepEqual([success, code], [false, 'DUPLICATE_NAME']);
  }
  for (const name of ['', '9lives', 'a b', 'é', 'a'.repeat(65), undefined, null, 5]) {
    const { success, code } = await second.register(named(name));
    assert.deepEqual([success, code], [false, 'INVALID_NAME'], String(name));
  }
  for (const description of ['', ' \t\n', 'x'.repeat(1025), undefined, 5]) {
    const { success, code } = await second.register({ name: 'other', description });
    assert.deepEqual([success, code], [false, 'INVALID_DESCRIPTION'], String(description).slice(0, 10));
  }
  assert.equal((await second.register({ ...named('other'), version: 5 })).code, 'VALIDATION_ERROR');
  assert.equal((await second.register({ ...named('other'), capabilities: 'notes' })).code, 'VALIDATION_ERROR');
  const longest = { name: `a${'-'.repeat(63)}`, description: '😀'.repeat(512), unknown: { field: 1 } };
  assert.equal((await second.register(longest)).success, true);
  // Said before anything is looked at.
  assert.equal((await second.register({ name: '' })).code, 'ALREADY_REGISTERED');

  first.socket.close(1000);
  await first.closed;
  await register(t, hub, named('notebook'));
});

test('frames that are no frames are answered and close nothing', async (t) => {
  const hub = await startHub(t);
  const client = await connect(t, hub);
  const bad = ['{', '', 'null', '[]', '5', '"text"', '{}', '{"type":5,"payload":{}}', Buffer.from([0xff, 0x00])];
  const nested = `${'['.repeat(5000)}${']'.repeat(5000)}`;
  for (const frame of [...bad, nested, '{"type":"registration","payload":null}', '{"type":"registration"}']) {
    client.send(frame);
    const { success, code } = await client.next('registration_response');
    assert.deepEqual([success, code], [false, 'VALIDATION_ERROR'], String(frame).slice(0, 50));
  }
  assert.equal((await client.register(NOTEBOOK)).success, true);
  for (const frame of [...bad, nested, '{"type":"response","payload":null}']) {
    client.send(frame);
    const { code, message } = await client.next('error');
    assert.deepEqual([typeof code, typeof message], ['string', 'string'], String(frame).slice(0, 50));
  }
  const { id } = await submit(hub, 'notebook: still here?');
  assert.equal((await client.message()).id, id);
  client.ack(id);
  await reaches(hub, id, 'delivered');
});

test('binary frames are read like text', async (t) => {
  const hub = await startHub(t);
  const client = await connect(t, hub);
  client.send(Buffer.from(JSON.stringify({ type: 'registration', payload: NOTEBOOK })));
  assert.equal((await client.next('registration_response')).success, true);
  const { id } = await submit(hub, 'notebook: buy milk');
  await client.message();
  const ack = { messageId: id, type: 'ack', payload: {} };
  client.send(Buffer.from(JSON.stringify({ type: 'response', payload: ack })));
  await reaches(hub, id, 'delivered');
});

test('a frame of exactly 1 MiB passes, one byte more closes with 1009, and nobody else notices', async (t) => {
  const hub = await startHub(t);
  const bystander = await register(t, hub, named('bystander'));
  const client = await connect(t, hub);
  const frame = JSON.stringify({ type: 'registration', payload: { ...NOTEBOOK, padding: '' } });
  const padded = (length) => frame.replace('"padding":""', `"padding":"${'x'.repeat(length - frame.length)}"`);
  assert.equal(padded(LARGEST).length, LARGEST);
  client.send(padded(LARGEST));
  assert.equal((await client.next('registration_response')).success, true);
  client.send(padded(LARGEST + 1));
  assert.equal(await client.closed, 1009);
  const { id } = await submit(hub, 'bystander: all well?');
  assert.equal((await bystander.message()).id, id);
  // The name is free again.
  await register(t, hub, NOTEBOOK);
});

test('any path is the hub, and only foreign pages and hosts are refused', async (t) => {
  const hub = await startHub(t);
  await register(t, hub, named('path'), { path: '/some/where?x=1' });
  await register(t, hub, named('obsidian'), { origin: 'app://obsidian.md' });
  await register(t, hub, named('page'), { origin: 'http://localhost:3000' });
  assert.equal(await refusal(hub, { origin: 'https://evil.example' }), 403);
  assert.equal(await refusal(hub, { headers: { origin: 'null' } }), 403);
  assert.equal(await refusal(hub, { headers: { host: 'evil.example' } }), 403);
});
