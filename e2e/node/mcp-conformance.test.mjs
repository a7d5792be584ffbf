// `/mcp` with the conformance suite of the Model Context Protocol: everything passes but what is listed as expected to
// fail, and nothing that is listed passes.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { startServer } from './server.mjs';

const EXPECTED_FAILURES = fileURLToPath(new URL('./mcp-expected-failures.yml', import.meta.url));
const MUST_PASS = [
  'server-initialize',
  'ping',
  'tools-list',
  'server-sse-multiple-streams',
  'dns-rebinding-protection',
];
const TIMEOUT = 240_000;

test('the conformance suite finds what it expects', { timeout: TIMEOUT }, async (t) => {
  const server = await startServer(t);
  const { code, output } = await runSuite(t, ['server', '--url', `${server.httpUrl}/mcp`]);
  assert.equal(code, 0, output);
  for (const scenario of MUST_PASS) assert.match(output, new RegExp(`✓ ${scenario}: [1-9]\\d* passed, 0 failed`));
});

/** Runs the suite's program in a folder of its own, for it leaves its results where it runs. */
async function runSuite(t, args) {
  const modules = process.env.PATCHBOARD_E2E_MODULES;
  assert.ok(modules, 'PATCHBOARD_E2E_MODULES does not name the folder with the packages');
  const program = path.resolve(modules, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'patchboard-conformance-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const environment = { ...process.env };
  // The test runner's own variables would make a child report to it.
  delete environment.NODE_TEST_CONTEXT;
  const child = spawn(process.execPath, [program, ...args, '--expected-failures', EXPECTED_FAILURES], {
    cwd: folder,
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.after(() => child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8');
    stream.on('data', (text) => (output += text));
  }
  const [code] = await once(child, 'close');
  return { code, output };
}
