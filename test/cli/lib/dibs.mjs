// SPDX-License-Identifier: MIT
// Runs the program in a folder of its own. Nothing here sleeps: until() asks again and again until
// a condition holds or its deadline has passed. With DIBS_TEST_DAEMON=1 every place has a daemon,
// so that the same tests show that commands do the same through it.
import { spawn } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const program = process.env.DIBS_BIN ?? join(import.meta.dirname, '../../../build/dibs');
export const withDaemon = process.env.DIBS_TEST_DAEMON === '1';
const DEADLINE_MS = 30_000;

/** The environment of a program under test: nothing of ours leaks into it. */
export function environment(more = {}) {
  const env = { ...process.env, LANG: 'C.UTF-8', LC_ALL: 'C.UTF-8', TERM: 'xterm', TZ: 'UTC' };
  for (const name of Object.keys(env)) {
    if (name.startsWith('DIBS_') || name === 'NO_COLOR' || name === 'FORCE_COLOR') delete env[name];
  }
  return { ...env, ...more };
}

/** A process with its output collected; `ended` resolves to {code, signal, out, err}. */
export class Running {
  constructor(command, args, { cwd, env, input, timeout = DEADLINE_MS } = {}) {
    this.out = '';
    this.err = '';
    const limits = { timeout, killSignal: 'SIGKILL' };
    this.child = spawn(command, args, { cwd, env: environment(env), ...limits });
    this.child.stdout.setEncoding('utf8').on('data', (text) => { this.out += text; });
    this.child.stderr.setEncoding('utf8').on('data', (text) => { this.err += text; });
    this.child.stdin.on('error', () => {});
    if (input !== null) this.child.stdin.end(input ?? ''); // null: the test writes to it
    this.ended = new Promise((done, failed) => {
      this.child.on('error', failed);
      this.child.on('close', (code, signal) => {
        done({ code, signal, out: this.out, err: this.err });
      });
    });
  }

  kill(signal) {
    this.child.kill(signal);
  }
}

/** Asks until the answer is true; fails with `what` when that takes too long. */
export async function until(what, ask) {
  const deadline = Date.now() + DEADLINE_MS / 2;
  while (Date.now() < deadline) {
    const answer = await ask();
    if (answer) return answer;
    await new Promise((next) => setImmediate(next));
  }
  throw new Error(`waited in vain: ${what}`);
}

/** A folder with a store, and dibs() to run commands in it as session "tester". */
export class Place {
  constructor(t) {
    this.dir = realpathSync(mkdtempSync(join(tmpdir(), 'dibs-cli-')));
    this.env = { DIBS_SESSION: 'tester' };
    this.started = [];
    t.after(async () => {
      const { exitCode, signalCode } = this.daemon?.child ?? {};
      const died = exitCode != null || signalCode != null;
      for (const running of this.started) {
        running.kill('SIGKILL');
        await running.ended;
      }
      rmSync(this.dir, { recursive: true, force: true });
      if (died) throw new Error(`the daemon died (${exitCode ?? signalCode}): ${this.daemon.err}`);
    });
  }

  /** Starts a daemon on a free port; resolves when it listens. Its URL is this.url. */
  async serve(...args) {
    const running = this.start('serve', '--listen', '127.0.0.1:0', ...args);
    const url = () => /listening on (http:\S+)/.exec(running.err + running.out);
    const isUp = () => url() && /listening on unix:/.test(running.err + running.out);
    await until('the daemon listens', () => isUp() || running.child.exitCode !== null);
    if (!isUp()) throw new Error(`dibs serve: ${running.err}`);
    [, this.url] = url();
    return running;
  }

  start(...args) {
    return this.spawn(program, args);
  }

  spawn(command, args, more = {}) {
    const env = { ...this.env, ...more.env };
    const running = new Running(command, args, { cwd: this.dir, ...more, env });
    this.started.push(running);
    return running;
  }

  async run(args, more) {
    return await this.spawn(program, args, more).ended;
  }

  dibs(...args) {
    return this.run(args);
  }

  /** Runs as another session. */
  as(session, ...args) {
    return this.run(args, { env: { DIBS_SESSION: session } });
  }

  /** Runs a line of shell in which $dibs is the program. */
  async sh(line, more = {}) {
    const env = { ...more.env, dibs: program };
    return await this.spawn('sh', ['-c', line], { ...more, env }).ended;
  }

  /** Runs a line of shell on a terminal; what it prints comes with \r\n. */
  async tty(line, env = {}) {
    const more = { env: { ...env, dibs: program } };
    return await this.spawn('script', ['-qec', line, '/dev/null'], more).ended;
  }

  /** The answer of a command as JSON, which must be one line. */
  async json(...args) {
    const { out, err } = await this.run(['--json', ...args]);
    if (!/^[^\n]+\n$/.test(out)) throw new Error(`not one line of JSON: ${out}${err}`);
    return JSON.parse(out);
  }
}

/** A place in which `dibs init` was run; {daemon: false}: what is tested would meet one. */
export async function place(t, { daemon = withDaemon } = {}) {
  const p = new Place(t);
  const made = await p.dibs('init');
  if (made.code !== 0) throw new Error(`dibs init: ${made.err}`);
  if (daemon) p.daemon = await p.serve();
  return p;
}
