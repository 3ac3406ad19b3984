// SPDX-License-Identifier: MIT
// A real daemon on a real socket, in a folder of its own, and ways to talk to it. Nothing here
// sleeps: until() asks again and again until a condition holds or its deadline has passed.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { program, Running, until } from '../../cli/lib/dibs.mjs';

export { program, Running, until };

const DAY_MS = 24 * 60 * 60 * 1000; // a daemon outlives the deadline of other programs

/** A data folder that a daemon may be started on, again and again. */
export class House {
  /** `options`: config (lines of .dibs/config), args (of dibs serve), env. */
  constructor(t, options = {}) {
    this.dir = realpathSync(mkdtempSync(join(tmpdir(), 'dibs-wire-')));
    this.data = join(this.dir, '.dibs');
    this.options = options;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
    this.started = [];
    t.after(async () => {
      this.agent.destroy();
      for (const running of this.started) {
        running.kill('SIGKILL');
        await running.ended;
      }
      rmSync(this.dir, { recursive: true, force: true });
    });
  }

  /** Runs a command on the same data folder: dibs('task', 'add', 'x') or with {env, input}. */
  async dibs(...args) {
    const more = typeof args.at(-1) === 'object' ? args.pop() : {};
    const all = ['--data', this.data, ...args];
    const running = new Running(program, all, { cwd: this.dir, ...more });
    this.started.push(running);
    return await running.ended;
  }

  /** Settings, as lines of the config file; for the next start or SIGHUP. */
  configure(lines) {
    writeFileSync(join(this.data, 'config'), lines.join('\n') + '\n');
  }

  /** Starts the daemon and waits until it says where it listens. */
  async start(...args) {
    const all = ['--data', this.data, 'serve', '--init', '--listen', '127.0.0.1:0',
      ...(this.options.args ?? []), ...args];
    const env = { ...this.options.env };
    this.daemon = new Running(program, all, { cwd: this.dir, env, timeout: DAY_MS });
    this.started.push(this.daemon);
    const over = this.daemon.ended.then(({ err }) => { throw new Error(`dibs serve: ${err}`); });
    over.catch(() => {});
    await Promise.race([over, until('the daemon says where it listens',
      () => this.daemon.out.includes('dashboard at'))]);
    this.url = /listening on (http:\/\/\S+)/.exec(this.daemon.out)[1];
    this.port = Number(new URL(this.url).port);
    this.socket = join(this.data, 'dibs.sock');
    return this;
  }

  /** Stops it as an operator would, and returns {code, signal, out, err}. */
  async stop(signal = 'SIGTERM') {
    this.daemon.kill(signal);
    return await this.daemon.ended;
  }

  /** One request. `more`: headers, body (text or anything that becomes JSON), socket: true. */
  request(method, path, more = {}) {
    const asIs = more.body === undefined || typeof more.body === 'string' ||
      more.body instanceof Buffer;
    const text = asIs ? more.body : JSON.stringify(more.body);
    const headers = { ...(text === undefined ? {} : { 'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(text) }), ...more.headers };
    const tcp = { host: '127.0.0.1', port: this.port };
    const where = more.socket ? { socketPath: this.socket } : tcp;
    return new Promise((done, failed) => {
      const req = http.request({ ...where, method, path, headers, agent: more.agent ?? this.agent,
        signal: more.signal }, (res) => {
        const parts = [];
        res.on('data', (part) => parts.push(part)).on('error', failed).on('end', () => {
          const body = Buffer.concat(parts).toString('utf8');
          const isJson = /json/.test(res.headers['content-type'] ?? '') && body !== '';
          done({ status: res.statusCode, headers: res.headers, text: body,
            json: isJson ? JSON.parse(body) : undefined });
        });
      });
      req.on('error', failed);
      req.end(text);
    });
  }

  get(path, more) {
    return this.request('GET', path, more);
  }

  post(path, body = {}, more = {}) {
    return this.request('POST', path, { ...more, body });
  }

  /** The answer of a request that must succeed. */
  async ok(method, path, body, more = {}) {
    const answer = await this.request(method, path, { ...more, body });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  }

  /** Makes a task and returns its id. */
  async task(more = {}) {
    return (await this.ok('POST', '/api/tasks', { title: 'a task', ...more })).task.id;
  }

  async session(id, more = {}) {
    return (await this.ok('POST', '/api/sessions', { id, ...more })).session.id;
  }

  /** Sends bytes as they are and returns all that comes back until the daemon hangs up, or until
   * `enough(text)` says so. */
  raw(bytes, enough = () => false) {
    return new Promise((done, failed) => {
      let text = '';
      const socket = net.connect(this.port, '127.0.0.1', () => socket.write(bytes));
      socket.setEncoding('latin1').setTimeout(15_000, () => {
        socket.destroy();
        failed(new Error(`the daemon neither answered nor hung up; so far: ${text}`));
      });
      socket.on('data', (part) => {
        text += part;
        if (enough(text)) socket.destroy();
      }).on('error', () => {}).on('close', () => done(text));
    });
  }
}

/** A daemon that runs; options as House. */
export async function house(t, options) {
  const h = new House(t, options);
  if (options?.config) {
    await h.dibs('init');
    h.configure(options.config);
  }
  return await h.start();
}
