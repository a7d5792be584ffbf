// Starts the `patchboard` binary for a test and takes it down again.
//
//   const server = await startServer(t, { config: '[budgets]\nsession = 100\n' });
//   new WebSocket(server.wsUrl);
//
// PATCHBOARD_BIN names the binary. Every server has a data directory of its own, which outlives `kill` and `restart`
// and goes away with `close`.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const READY_TIMEOUT = 60_000;
// Drain takes ten seconds by default; long after that the server does not end by itself.
const STOP_TIMEOUT = 60_000;
const POLL = 10;
const LOG_TAIL = 64 * 1024;
// A key or setting in the tester's environment must not change what is tested.
const FOREIGN_SETTINGS = ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'OPENAI_API_KEY', 'OPENAI_BASE_URL'];
const LOOPBACK = '127.0.0.1,localhost,::1';

/** A running server that is closed with the test `t`, and whose log is shown when `t` fails. */
export async function startServer(t, options = {}) {
  const server = new Server(options);
  t.after(async () => {
    await server.close();
    // Before Node 20 a test does not know whether it passed; then the log is shown only when the start failed.
    if (t.passed === false) showLog(server);
  });
  try {
    return await server.start();
  } catch (error) {
    await server.close();
    throw error;
  }
}

/**
 * One `patchboard serve` process and its data directory. `gateway`, `runs`, `hub` and `bridge` are listen addresses or
 * `off`; `config` is the text of a patchboard.toml; `args` are added to the command line, `env` to the environment.
 */
export class Server {
  constructor({ config, gateway = '127.0.0.1:0', runs = 'off', hub = 'off', bridge = 'off', args = [], env = {} } = {}) {
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'patchboard-e2e-'));
    this.dataDir = path.join(this.folder, 'data');
    this.configFile = path.join(this.folder, 'patchboard.toml');
    this.readyFile = path.join(this.folder, 'ready.json');
    this.logFile = path.join(this.folder, 'stderr.log');
    this.listen = { gateway, runs, hub, bridge };
    this.args = args;
    this.env = env;
    this.process = null;
    this.ready = {};
    this.keptLog = '';
    if (config !== undefined) fs.writeFileSync(this.configFile, config);
    servers.add(this);
  }

  /** Starts the process and waits until every enabled surface accepts. */
  async start({ timeout = READY_TIMEOUT } = {}) {
    if (this.isRunning) throw new Error('the server is already running');
    fs.rmSync(this.readyFile, { force: true });
    const log = fs.openSync(this.logFile, 'a');
    const [program, ...args] = this.command();
    const child = spawn(program, args, { cwd: this.folder, env: this.environment(), stdio: ['ignore', log, log] });
    fs.closeSync(log);
    this.process = child;
    let failure = null;
    child.once('error', (error) => (failure = error));
    const deadline = Date.now() + timeout;
    // The file appears by renaming, so once it is there it is complete.
    while (!fs.existsSync(this.readyFile)) {
      if (failure) throw new Error(`the server could not be started: ${failure.message}`);
      if (!this.isRunning) {
        throw new Error(`the server ended with ${this.exitCode} before it was ready\n${this.log()}`);
      }
      if (Date.now() > deadline) {
        await this.kill();
        throw new Error(`the server was not ready after ${timeout} ms\n${this.log()}`);
      }
      await delay(POLL);
    }
    this.ready = JSON.parse(fs.readFileSync(this.readyFile, 'utf8'));
    return this;
  }

  command() {
    if (!process.env.PATCHBOARD_BIN) throw new Error('PATCHBOARD_BIN does not name the patchboard binary');
    // Servers run in a folder of their own.
    const program = path.resolve(process.env.PATCHBOARD_BIN);
    const listen = Object.entries(this.listen).flatMap(([surface, address]) => [`--${surface}`, address]);
    const config = fs.existsSync(this.configFile) ? ['--config', this.configFile] : [];
    const files = ['--data-dir', this.dataDir, '--ready-file', this.readyFile];
    return [program, 'serve', ...files, ...listen, ...config, ...this.args];
  }

  environment() {
    const foreign = (name) => FOREIGN_SETTINGS.includes(name) || name.startsWith('PATCHBOARD__');
    const own = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign(name)));
    // The test runner's own variables would make a child report to it.
    delete own.NODE_TEST_CONTEXT;
    return { ...own, NO_PROXY: LOOPBACK, no_proxy: LOOPBACK, NO_COLOR: '1', ...this.env };
  }

  /** Where a surface listens, as `host:port`. */
  address(surface) {
    const address = this.ready[surface];
    if (!address) throw new Error(`the server does not listen on ${surface}: ${JSON.stringify(this.ready)}`);
    return address;
  }

  get gateway() {
    return this.address('gateway');
  }

  get wsUrl() {
    return `ws://${this.gateway}/ws`;
  }

  get httpUrl() {
    return `http://${this.gateway}`;
  }

  get pid() {
    return this.process?.pid;
  }

  get isRunning() {
    const child = this.process;
    return child !== null && child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  }

  /** The exit code, or the name of the signal that ended it. */
  get exitCode() {
    return this.process?.exitCode ?? this.process?.signalCode ?? null;
  }

  /** SIGTERM, then waits for the drain; gives the exit code. */
  async terminate({ signal = 'SIGTERM', timeout = STOP_TIMEOUT } = {}) {
    if (!this.isRunning) return this.exitCode;
    const ended = once(this.process, 'exit', { signal: AbortSignal.timeout(timeout) });
    this.process.kill(signal);
    try {
      await ended;
    } catch (error) {
      if (error.name !== 'AbortError') throw error;
      await this.kill();
      throw new Error(`the server did not end within ${timeout} ms\n${this.log()}`);
    }
    return this.exitCode;
  }

  /** SIGKILL: no drain, no goodbye. */
  async kill() {
    if (!this.isRunning) return;
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
  }

  /** Starts again on the same data directory, draining first if still running. The address may change. */
  async restart() {
    await this.terminate();
    return this.start();
  }

  /** Kills what still runs and removes the data directory; the log can still be read. */
  async close() {
    await this.kill();
    this.keptLog = this.log();
    fs.rmSync(this.folder, { recursive: true, force: true });
    servers.delete(this);
  }

  /** The last part of what all processes of this server wrote. */
  log() {
    if (!fs.existsSync(this.logFile)) return this.keptLog;
    return fs.readFileSync(this.logFile).subarray(-LOG_TAIL).toString('utf8');
  }
}

function showLog(server) {
  process.stderr.write(`--- log of the server\n${server.log()}--- end of the log\n`);
}

// No server outlives the tests, not even one that a test forgot. Only synchronous work is possible here.
const servers = new Set();
process.on('exit', () => {
  for (const server of servers) {
    if (server.isRunning) server.process.kill('SIGKILL');
    fs.rmSync(server.folder, { recursive: true, force: true });
  }
});
// A signal would end the process without its `exit`.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => process.exit(1));
}
