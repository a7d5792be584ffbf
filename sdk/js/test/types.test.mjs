// The type checker on the code, on the types written by hand, and on the example.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SDK = fileURLToPath(new URL('..', import.meta.url));

test('the code keeps to its types, and they accept and refuse what they should', (t) => {
  const modules = packages();
  if (!modules) return t.skip('TypeScript is not installed: PATCHBOARD_E2E_MODULES does not name its folder');
  return check(t, modules, { include: ['index.d.ts', 'src', 'types'].map((name) => path.join(SDK, name)) });
});

test('the example is right in Node, with the sockets of `ws`', (t) => {
  const modules = packages();
  if (!modules) return t.skip('TypeScript is not installed: PATCHBOARD_E2E_MODULES does not name its folder');
  const types = path.join(modules, '@types');
  // Declarations of packages are not what is checked here; those of this one are, above.
  const skipLibCheck = true;
  const compilerOptions = { types: ['node'], typeRoots: [types], paths: { ws: [path.join(types, 'ws')] }, skipLibCheck };
  return check(t, modules, { compilerOptions, include: [path.join(SDK, 'examples')] });
});

test('a mistake is found', (t) => {
  const modules = packages();
  if (!modules) return t.skip('TypeScript is not installed: PATCHBOARD_E2E_MODULES does not name its folder');
  const folder = scratch(t);
  const file = path.join(folder, 'mistake.ts');
  const source = path.join(SDK, 'index.js');
  fs.writeFileSync(file, `import { connect } from ${JSON.stringify(source)};\nconnect({ name: 5 });\n`);
  const { status, stdout } = compile(modules, folder, { include: [file] });
  assert.notEqual(status, 0);
  assert.match(stdout, /mistake\.ts\(2,\d+\): error TS2322/);
});

/** The folder that holds TypeScript, or nothing. */
function packages() {
  const folder = process.env.PATCHBOARD_E2E_MODULES;
  return folder && path.resolve(folder, 'node_modules');
}

function check(t, modules, config) {
  const { status, stdout, stderr } = compile(modules, scratch(t), config);
  assert.equal(status, 0, stdout + stderr);
}

function compile(modules, folder, config) {
  const project = path.join(folder, 'tsconfig.json');
  fs.writeFileSync(project, JSON.stringify({ extends: path.join(SDK, 'tsconfig.json'), ...config }));
  const tsc = createRequire(path.join(modules, 'x.js')).resolve('typescript/bin/tsc');
  // TypeScript's own declarations of the language and of browsers are right, and the longest part of all to check.
  const args = [tsc, '-p', project, '--pretty', 'false', '--skipDefaultLibCheck'];
  return spawnSync(process.execPath, args, { encoding: 'utf8' });
}

function scratch(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'hub-client-types-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}
