// Messages: handled once, answered always.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { answer, fakeHub, message, settled } from './fake.mjs';

/** A registered app whose handler is `onMessage`. */
function registered(onMessage, options = {}) {
  const hub = fakeHub();
  const app = hub.connect({ onMessage, ...options });
  hub.socket.register();
  return { hub, app };
}

/** A handler that waits for the test, and the messages it has. */
function waiting() {
  const messages = [];
  const onMessage = (message) =>
    new Promise((resolve, reject) => messages.push({ message, finish: resolve, fail: reject }));
  return { messages, onMessage };
}

/** Loses the connection and comes back. */
function reconnect(hub) {
  hub.socket.end();
  hub.clock.advance(1000);
  hub.socket.register();
}

test('the handler gets the message as it was sent', async () => {
  let seen;
  const { hub } = registered((message) => void (seen = message));
  const metadata = { inputMethod: 'voice', directRouted: true, confidence: 0.9, extra: [1] };
  hub.socket.receive(message('m1', 'buy milk', { metadata }));
  const { id, text, timestamp } = seen;
  assert.deepEqual([id, text, timestamp], ['m1', 'buy milk', '2024-01-15T10:30:00.000Z']);
  assert.deepEqual(seen.metadata, metadata);
  assert.equal(seen.signal.aborted, false);
  assert.equal(seen.answer, null);
  await settled();
  assert.equal(seen.answer, 'ack');
});

test('a handler that returns acknowledges', async () => {
  const { hub } = registered(async () => 'done');
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack')]);
  assert.deepEqual(hub.errors, []);
});

test('a handler that throws rejects with the error’s text, and the error is reported', async () => {
  const failures = [
    [new Error('no such folder'), 'no such folder'],
    ['just text', 'just text'],
    [new Error(''), 'the handler failed'],
    [undefined, 'undefined'],
  ];
  for (const [failure, reason] of failures) {
    const { hub } = registered(() => {
      throw failure;
    });
    hub.socket.receive(message('m1'));
    await settled();
    assert.deepEqual(hub.socket.answers, [answer('m1', 'reject', { reason })]);
    assert.equal(hub.errors.length, 1);
    assert.deepEqual([hub.errors[0].code, hub.errors[0].cause], ['HANDLER_FAILED', failure]);
  }
});

test('the first answer stands', async () => {
  const given = [];
  const { hub } = registered(({ ack, reject, text }) => {
    if (text === 'ack') given.push(ack(), ack(), reject('too late'));
    else given.push(reject('not mine'), ack(), reject());
  });
  hub.socket.receive(message('m1', 'ack'));
  hub.socket.receive(message('m2', 'reject'));
  await settled();
  assert.deepEqual(given, [true, false, false, true, false, false]);
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack'), answer('m2', 'reject', { reason: 'not mine' })]);
});

test('a failure after an early ack is reported and rejects nothing', async () => {
  const { hub } = registered(async ({ ack }) => {
    ack();
    throw new Error('later');
  });
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack')]);
  assert.equal(hub.errors[0].code, 'HANDLER_FAILED');
});

test('a rejection needs no reason, and a long one is cut between characters', async () => {
  const { hub } = registered(({ reject, text }) => void reject(text));
  hub.socket.receive(message('m1', ''));
  hub.socket.receive(message('m2', `${'x'.repeat(1022)}😀${'y'.repeat(9)}`));
  await settled();
  const [none, long] = hub.socket.answers;
  assert.deepEqual(none, answer('m1', 'reject'));
  assert.equal(long.payload.payload.reason, `${'x'.repeat(1022)}…`);
});

test('notifications go out as often as the app likes, before and after the answer', async () => {
  const { hub } = registered(({ ack, notify }) => {
    notify('working');
    ack();
    notify({ title: 'Done', body: 'Saved.', priority: 'high' });
    notify({ title: 'Which one?', expectsReply: true });
  });
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(hub.socket.answers, [
    answer('m1', 'notification', { body: 'working' }),
    answer('m1', 'ack'),
    answer('m1', 'notification', { title: 'Done', body: 'Saved.', priority: 'high' }),
    answer('m1', 'notification', { title: 'Which one?', metadata: { expectsReply: true } }),
  ]);
});

test('a notification that the hub could not take throws where it is made', async () => {
  const errors = [];
  const { hub } = registered(({ notify }) => {
    for (const wrong of [{}, '', { title: '' }, { body: 5 }, { body: 'x', priority: 'urgent' }, 'x'.repeat(2 ** 20)]) {
      try {
        notify(wrong);
      } catch (error) {
        errors.push(error.name);
      }
    }
  });
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(errors, ['TypeError', 'TypeError', 'TypeError', 'TypeError', 'TypeError', 'RangeError']);
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack')]);
});

test('a message that comes again is acknowledged again and not handled twice', async () => {
  let handled = 0;
  const { hub } = registered(() => void (handled += 1));
  hub.socket.receive(message('m1'));
  await settled();
  hub.socket.receive(message('m1', 'hello', { timestamp: '2024-01-15T10:31:00.000Z' }));
  reconnect(hub);
  hub.socket.receive(message('m1', 'hello', { timestamp: '2024-01-15T10:32:00.000Z' }));
  await settled();
  assert.equal(handled, 1);
  assert.deepEqual(hub.sockets[0].answers, [answer('m1', 'ack'), answer('m1', 'ack')]);
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack')]);
});

test('a message that comes again while it is handled waits for the one answer', async () => {
  const { messages, onMessage } = waiting();
  const { hub } = registered(onMessage);
  hub.socket.receive(message('m1'));
  reconnect(hub);
  hub.socket.receive(message('m1'));
  assert.equal(messages.length, 1);
  assert.deepEqual(hub.socket.answers, []);
  messages[0].message.ack();
  // Acknowledged early, still at work: the answer is known, and given again.
  hub.socket.receive(message('m1'));
  messages[0].finish();
  await settled();
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack'), answer('m1', 'ack')]);
});

test('a rejected message that comes again gets a new chance', async () => {
  let locked = true;
  let handled = 0;
  const { hub } = registered(({ reject }) => {
    handled += 1;
    if (locked) reject('locked');
  });
  hub.socket.receive(message('m1'));
  await settled();
  locked = false;
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(hub.socket.answers, [answer('m1', 'reject', { reason: 'locked' }), answer('m1', 'ack')]);
  assert.equal(handled, 2);
});

test('the memory for acknowledged messages is bounded, and the oldest goes first', async () => {
  const handled = [];
  const { hub } = registered(({ id }) => void handled.push(id), { maxRemembered: 2 });
  for (const id of ['a', 'b', 'a', 'c', 'a', 'b']) {
    hub.socket.receive(message(id));
    await settled();
  }
  // `a` was renewed when it came again, so `c` pushed out `b`.
  assert.deepEqual(handled, ['a', 'b', 'c', 'b']);
  assert.equal(hub.socket.answers.length, 6);
});

test('answers given without a connection are sent, in order, after the next registration', async () => {
  const { messages, onMessage } = waiting();
  const { hub } = registered(onMessage);
  hub.socket.receive(message('m1'));
  hub.socket.receive(message('m2'));
  const [lost] = hub.sockets;
  lost.end();
  messages[1].message.notify('second');
  messages[0].finish();
  messages[1].fail(new Error('no'));
  await settled();
  hub.clock.advance(1000);
  hub.socket.open();
  assert.deepEqual(hub.socket.answers, []);
  hub.socket.receive({ type: 'registration_response', payload: { success: true, clientId: 'c2' } });
  assert.deepEqual(lost.answers, []);
  assert.deepEqual(hub.socket.answers, [
    answer('m2', 'notification', { body: 'second' }),
    answer('m1', 'ack'),
    answer('m2', 'reject', { reason: 'no' }),
  ]);
});

test('a socket that is already closing is not given answers that it would lose', () => {
  const { messages, onMessage } = waiting();
  const { hub } = registered(onMessage);
  hub.socket.receive(message('m1'));
  hub.socket.readyState = 2;
  messages[0].message.ack();
  reconnect(hub);
  assert.deepEqual(hub.sockets[0].answers, []);
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack')]);
});

test('the queue of answers is bounded, and what it drops is reported', () => {
  const { messages, onMessage } = waiting();
  const { hub } = registered(onMessage, { maxQueued: 2 });
  hub.socket.receive(message('m1'));
  hub.socket.end();
  for (const body of ['one', 'two', 'three']) messages[0].message.notify(body);
  assert.deepEqual(hub.errors.map((error) => error.code), ['ANSWERS_DROPPED']);
  hub.clock.advance(1000);
  hub.socket.register();
  assert.deepEqual(hub.socket.answers.map((frame) => frame.payload.payload.body), ['two', 'three']);
});

test('a hub that does not read makes answers wait, and gets them when it reads again', () => {
  const { messages, onMessage } = waiting();
  const { hub } = registered(onMessage);
  hub.socket.receive(message('m1'));
  hub.socket.bufferedAmount = 5 * 1024 * 1024;
  messages[0].message.notify('one');
  messages[0].message.notify('two');
  assert.deepEqual(hub.clock.pending, [100]);
  hub.clock.advance(1000);
  assert.deepEqual(hub.socket.answers, []);
  hub.socket.bufferedAmount = 0;
  hub.clock.advance(100);
  assert.deepEqual(hub.socket.answers.map((frame) => frame.payload.payload.body), ['one', 'two']);
  assert.deepEqual(hub.clock.pending, []);
});

test('more messages at once than allowed are rejected as busy', async () => {
  const { messages, onMessage } = waiting();
  const { hub } = registered(onMessage, { maxRunning: 2 });
  for (const id of ['m1', 'm2', 'm3']) hub.socket.receive(message(id));
  assert.deepEqual(hub.socket.answers, [answer('m3', 'reject', { reason: 'busy with 2 other messages' })]);
  messages[0].finish();
  await settled();
  hub.socket.receive(message('m3'));
  assert.equal(messages.at(-1).message.id, 'm3');
});

test('a message may come before the answer to the registration', async () => {
  const hub = fakeHub();
  hub.connect({});
  hub.socket.open();
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(hub.socket.answers, []);
  hub.socket.receive({ type: 'registration_response', payload: { success: true, clientId: 'c1' } });
  assert.deepEqual(hub.socket.answers, [answer('m1', 'ack')]);
});

test('closing aborts the handlers at work, losing the connection does not', async () => {
  const { messages, onMessage } = waiting();
  const { hub, app } = registered(onMessage, { maxQueued: 1 });
  hub.socket.receive(message('m1'));
  const { message: given, fail } = messages[0];
  reconnect(hub);
  assert.equal(given.signal.aborted, false);
  const leaving = app.close();
  assert.equal(given.signal.aborted, true);
  // Nobody hears these any more, and a handler that stops as told is no failure.
  given.notify('bye');
  given.notify('bye');
  fail(given.signal.reason);
  await settled();
  hub.socket.end(1000);
  await leaving;
  assert.deepEqual(hub.socket.answers, []);
  assert.deepEqual(hub.errors, []);
});

test('a callback that throws is an uncaught error and stops nothing', async (t) => {
  const uncaught = [];
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (error) => uncaught.push(error.message));
  t.after(() => {
    process.removeAllListeners('uncaughtException');
    for (const listener of before) process.on('uncaughtException', listener);
  });
  const hub = fakeHub();
  const app = hub.connect({
    onState: () => {
      throw new Error('bad onState');
    },
    onError: () => {
      throw new Error('bad onError');
    },
    onMessage: () => {
      throw new Error('bad onMessage');
    },
  });
  hub.socket.register();
  hub.socket.receive(message('m1'));
  await settled();
  assert.deepEqual(uncaught, ['bad onState', 'bad onError']);
  assert.deepEqual(hub.socket.answers, [answer('m1', 'reject', { reason: 'bad onMessage' })]);
  assert.equal(app.state.name, 'registered');
});
