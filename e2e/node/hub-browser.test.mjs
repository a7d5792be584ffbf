// Apps in a real browser: pages of this machine work unchanged, pages from elsewhere are refused.
//
// The browser is the machine's own Chromium; PATCHBOARD_CHROMIUM names another one.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { LONGEST_WAIT, TIMEOUT, WebSocket, eventually, hubUrl, reaches, startHub, submit } from './hub.mjs';
import { load } from './packages.mjs';

const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const SDK = new URL('../../sdk/js/src/', import.meta.url);
// Leads to this machine, but is no name of it.
const FOREIGN = 'foreign.test';
const PAGE = '<!doctype html><meta charset="utf-8"><title>app</title>';

const program = findBrowser();
const skip = program ? false : `no Chromium was found: none of ${PROGRAMS.join(', ')}`;
let browser;
let site;

before(async () => {
  if (skip) return;
  site = http.createServer(serve).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const args = [`--host-resolver-rules=MAP ${FOREIGN} 127.0.0.1`, '--no-proxy-server'];
  browser = await load('playwright-core').chromium.launch({ executablePath: program, args, timeout: 2 * TIMEOUT });
});

after(async () => {
  await browser?.close();
  site?.close();
  site?.closeAllConnections();
});

for (const host of ['127.0.0.1', 'localhost']) {
  test(`a page of ${host} registers, gets a message and answers it`, { skip }, async (t) => {
    const hub = await startHub(t);
    const page = await open(t, host);
    assert.deepEqual(await page.evaluate(plainApp, hubUrl(hub)), 'registered');
    const { id } = await submit(hub, 'notebook: buy milk');
    const { notifications } = await eventually(hub, id, (message) => message.notifications.length > 0);
    await reaches(hub, id, 'delivered');
    assert.equal(notifications[0].body, 'buy milk');
    const received = await page.evaluate(() => window.received);
    assert.deepEqual(received.map((message) => [message.id, message.text]), [[id, 'buy milk']]);
  });
}

test('a page from elsewhere is refused, by every name of the hub, and cannot submit either', { skip }, async (t) => {
  const hub = await startHub(t);
  const port = hub.address('hub').split(':').at(-1);
  const page = await open(t, FOREIGN);

  // The browser itself does not stop the page: a server that asks no questions is reached.
  const careless = new WebSocket.Server({ host: '127.0.0.1', port: 0 });
  t.after(() => careless.close());
  await once(careless, 'listening');
  const visited = once(careless, 'connection');
  const carelessUrl = `ws://127.0.0.1:${careless.address().port}`;
  assert.deepEqual(await page.evaluate(outcome, carelessUrl), ['open']);
  const [visitor, request] = await visited;
  visitor.terminate();
  assert.equal(request.headers.origin, origin(FOREIGN));

  for (const name of ['127.0.0.1', 'localhost', FOREIGN]) {
    assert.deepEqual(await page.evaluate(outcome, `ws://${name}:${port}`), ['error', 'close 1006'], name);
  }
  for (const name of ['127.0.0.1', FOREIGN]) {
    await page.evaluate(async (url) => {
      const body = JSON.stringify({ text: 'from elsewhere' });
      await fetch(url, { method: 'POST', mode: 'no-cors', body }).catch(() => {});
    }, `http://${name}:${port}/v1/messages`);
  }
  const listed = await (await fetch(`http://${hub.address('hub')}/v1/messages`)).text();
  assert.ok(!listed.includes('from elsewhere'), listed);
});

test('a page from elsewhere is let in when the hub’s configuration names it', { skip }, async (t) => {
  const hub = await startHub(t, { config: `[hub]\nallowed_origins = ["${origin(FOREIGN)}"]\n` });
  const page = await open(t, FOREIGN);
  assert.deepEqual(await page.evaluate(plainApp, hubUrl(hub)), 'registered');
});

test('the client package works in a page, and comes back when the hub was killed', { skip }, async (t) => {
  const hub = await startHub(t);
  const page = await open(t, '127.0.0.1');
  await page.evaluate(async (url) => {
    const { connect } = await import('/sdk/index.js');
    window.states = [];
    window.app = connect({
      name: 'notebook',
      description: 'I take notes and remember things for you.',
      url,
      onMessage: ({ text, notify }) => notify({ title: 'Noted', body: text }),
      onState: ({ name }) => window.states.push(name),
    });
    await window.app.ready;
  }, hubUrl(hub));
  const submitted = await submit(hub, 'notebook: buy milk', { wait: LONGEST_WAIT });
  assert.equal(submitted.state, 'delivered');
  await eventually(hub, submitted.id, (message) => message.notifications[0]?.title === 'Noted');

  await hub.kill();
  await hub.start();
  await page.waitForFunction(() => window.states.filter((name) => name === 'registered').length === 2);
  const again = await submit(hub, 'notebook: buy bread', { wait: LONGEST_WAIT });
  assert.equal(again.state, 'delivered');
  await page.evaluate(() => window.app.close());
  assert.equal(await page.evaluate(() => window.app.state.name), 'closed');
});

/** Runs in the page: the protocol by hand, without any library. */
function plainApp(url) {
  window.received = [];
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    const send = (type, payload) => socket.send(JSON.stringify({ type, payload }));
    const payload = { name: 'notebook', description: 'I take notes and remember things for you.' };
    socket.onopen = () => send('registration', payload);
    socket.onerror = () => reject(new Error('the connection failed'));
    socket.onmessage = (event) => {
      const frame = JSON.parse(event.data);
      if (frame.type === 'registration_response') {
        resolve(frame.payload.success ? 'registered' : frame.payload.code);
      } else if (frame.type === 'message') {
        const { id, text } = frame.payload;
        window.received.push(frame.payload);
        send('response', { messageId: id, type: 'ack', payload: {} });
        send('response', { messageId: id, type: 'notification', payload: { body: text } });
      }
    };
  });
}

/** Runs in the page: what becomes of a connection. */
function outcome(url) {
  return new Promise((resolve) => {
    const events = [];
    const socket = new WebSocket(url);
    socket.onopen = () => resolve(['open']);
    socket.onerror = () => events.push('error');
    socket.onclose = ({ code }) => resolve([...events, `close ${code}`]);
  });
}

const origin = (host) => `http://${host}:${site.address().port}`;

async function open(t, host) {
  const page = await browser.newPage();
  t.after(() => page.close());
  page.setDefaultTimeout(2 * TIMEOUT);
  await page.goto(`${origin(host)}/`);
  return page;
}

/** An empty page, and the client package beside it. */
function serve(request, response) {
  const module = /^\/sdk\/([a-z]+\.js)$/.exec(request.url ?? '')?.[1];
  const file = module && new URL(module, SDK);
  if (file && fs.existsSync(file)) {
    response.writeHead(200, { 'content-type': 'text/javascript' }).end(fs.readFileSync(file));
  } else if (request.url === '/') {
    response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE);
  } else {
    response.writeHead(404).end();
  }
}

function findBrowser() {
  if (process.env.PATCHBOARD_CHROMIUM) return process.env.PATCHBOARD_CHROMIUM;
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  const places = PROGRAMS.flatMap((name) => folders.map((folder) => path.join(folder, name)));
  return places.find((place) => fs.existsSync(place));
}
