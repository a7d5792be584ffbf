// A notebook on the hub: what the user says to it becomes a line of a Markdown file.
//
//   node notebook.mjs [FILE] [HUB]
//
// FILE is `notes.md` and HUB `ws://127.0.0.1:9473` unless told otherwise. It shows every part of the client: answers,
// notifications, a question, and a message that comes twice.

import { appendFile, readFile, writeFile } from 'node:fs/promises';

import { connect } from '@patchboard/hub-client';

const [file = 'notes.md', url = 'ws://127.0.0.1:9473'] = process.argv.slice(2);
const LONGEST_NOTE = 10_000;

/** Whether the last thing said to the user was the question whether to forget the last note. */
let asked = false;

/** @param {import('@patchboard/hub-client').Message} message */
async function handle(message) {
  const text = message.text.trim();
  if (text.length > LONGEST_NOTE) return message.reject(`a note has at most ${LONGEST_NOTE} characters`);

  const answers = asked;
  asked = false;
  if (answers && /^yes\b/i.test(text)) return forget(message);
  if (answers && /^no\b/i.test(text)) return message.notify('Kept.');

  if (/^(forget|undo)\b/i.test(text)) return ask(message);
  if (/^(show|list|read)\b/i.test(text)) return show(message);
  return note(message, text);
}

/**
 * @param {import('@patchboard/hub-client').Message} message
 * @param {string} text
 */
async function note(message, text) {
  // The client remembers what was acknowledged for as long as it runs. The id in the file remembers it for ever: a
  // message that was written just before a crash, and comes again after it, is not written twice.
  const mark = `<!-- ${message.id} -->`;
  if ((await lines()).some((line) => line.endsWith(mark))) return;
  await appendFile(file, `- ${text.replaceAll(/\s*\n\s*/g, ' ')} ${mark}\n`);
  message.ack();
  message.notify({ title: 'Noted', body: text, priority: 'low' });
  console.log(`noted: ${text}`);
}

/** @param {import('@patchboard/hub-client').Message} message */
async function show(message) {
  const last = (await lines()).slice(-3).map(plain);
  message.notify({ title: 'Last notes', body: last.join('\n') || 'There are none.' });
}

/** @param {import('@patchboard/hub-client').Message} message */
async function ask(message) {
  const last = (await lines()).at(-1);
  if (last === undefined) return message.notify('There is nothing to forget.');
  asked = true;
  // What the user says next comes here first.
  return message.notify({ title: 'Forget this note?', body: plain(last), priority: 'high', expectsReply: true });
}

/** @param {import('@patchboard/hub-client').Message} message */
async function forget(message) {
  const kept = (await lines()).slice(0, -1);
  await writeFile(file, kept.map((line) => `${line}\n`).join(''));
  message.notify('Forgotten.');
}

async function lines() {
  const text = await readFile(file, 'utf8').catch((error) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  return text.split('\n').filter(Boolean);
}

/** A line as the user said it. @param {string} line */
function plain(line) {
  return line.replace(/^- /, '').replace(/ <!-- .* -->$/, '');
}

// Messages come at the same time, but the file is written by one at a time.
let turn = Promise.resolve();

const hub = connect({
  name: 'notebook',
  description: 'I keep notes: I remember what you tell me, read it back to you, and forget it when you ask me to.',
  version: '0.1.0',
  capabilities: ['notes', 'remember'],
  url,
  // Node before 22 has no WebSocket of its own: `npm install ws`.
  WebSocket: globalThis.WebSocket ?? (await import('ws')).WebSocket,
  onMessage(message) {
    const handled = turn.then(() => handle(message));
    turn = handled.then(
      () => {},
      () => {},
    );
    return handled;
  },
  onState: (state) => console.log(state.name === 'waiting' ? `no hub: ${state.error.message}` : state.name),
});

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => hub.close());
