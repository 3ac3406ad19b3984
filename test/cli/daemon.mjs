// SPDX-License-Identifier: MIT
// dibs serve, and commands that reach it through the socket, by --url and by DIBS_URL; what they
// say when it cannot be reached.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Place, place, until } from './lib/dibs.mjs';

const withoutDaemon = { daemon: false };

/** Something that listens but is no daemon; `each` gets every connection. */
async function listener(t, where, each) {
  const server = createServer(each);
  const sockets = new Set();
  server.on('connection', (socket) => sockets.add(socket.on('error', () => {})));
  server.listen(where);
  await once(server, 'listening');
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return server;
}

test('serve says where it listens, and leaves no socket behind', async (t) => {
  const p = await place(t, withoutDaemon);
  const daemon = await p.serve();
  assert.match(daemon.err + daemon.out, /^dibs: listening on http:\/\/127\.0\.0\.1:\d+$/m);
  assert.ok(existsSync(join(p.dir, '.dibs/dibs.sock')));
  daemon.kill('SIGTERM');
  const { code, signal } = await daemon.ended;
  assert.equal(signal, null);
  assert.equal(code, 0);
  assert.ok(!existsSync(join(p.dir, '.dibs/dibs.sock')));
});

test('serve needs a data folder, and makes one with --init', async (t) => {
  const p = new Place(t);
  const refused = await p.dibs('serve', '--listen', '127.0.0.1:0');
  assert.equal(refused.code, 15);
  assert.match(refused.err, /dibs init|--init/);
  await p.serve('--init');
  assert.ok(existsSync(join(p.dir, '.dibs/dibs.db')));
  assert.equal(readFileSync(join(p.dir, '.dibs/.gitignore'), 'utf8'), '*\n');
  assert.equal((await p.dibs('task', 'add', 'a')).code, 0);
});

test('what serve cannot do is refused before it begins', async (t) => {
  const p = await place(t, withoutDaemon);
  for (const args of [['--max-connections', '0'], ['--url', 'http://127.0.0.1:1'], ['word'],
    ['--listen', 'nonsense:port']]) {
    const { code, err } = await p.dibs('serve', ...args);
    assert.equal(code, 2, err);
  }
  const open = await p.dibs('serve', '--listen', '0.0.0.0:0');
  assert.notEqual(open.code, 0);
  assert.match(open.err, /dibs key add/);
});

test('a second daemon on the same folder is refused', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.serve();
  const second = await p.dibs('serve', '--listen', '127.0.0.1:0');
  assert.notEqual(second.code, 0);
  assert.match(second.err, /another daemon/);
  assert.doesNotMatch(second.err, /try:/);
  assert.equal((await p.dibs('task', 'list')).code, 0);
});

test('commands see the same queue by socket, by --url, by DIBS_URL and without', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.dibs('task', 'add', 'before');
  const daemon = await p.serve();
  assert.match((await p.dibs('task', 'list')).out, /before/);
  assert.equal((await p.dibs('task', 'add', 'socket')).code, 0);
  assert.equal((await p.run(['task', 'add', 'url', '--url', p.url], { cwd: '/' })).code, 0);
  const env = { DIBS_URL: `${p.url}/` };
  assert.equal((await p.run(['task', 'add', 'variable'], { cwd: '/', env })).code, 0);
  daemon.kill('SIGKILL');
  await daemon.ended;
  // the socket file is still there, but nobody listens on it
  assert.ok(existsSync(join(p.dir, '.dibs/dibs.sock')));
  const { tasks } = await p.json('task', 'list');
  assert.deepEqual(tasks.map((task) => task.title), ['before', 'socket', 'url', 'variable']);
});

test('the task of a process that dies is back at once', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.serve();
  await p.dibs('task', 'add', 'a');
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] });
  t.after(() => child.kill('SIGKILL'));
  assert.equal((await p.as('mortal', 'claim', '--pid', String(child.pid))).code, 0);
  const waiting = p.spawn(process.env.DIBS_BIN, ['claim', '--wait', '20s']);
  child.kill('SIGKILL');
  const { code, out, err } = await waiting.ended;
  assert.equal(code, 0, err);
  assert.match(out, /^claimed 1 'a'/);
});

test('a daemon by URL that cannot be reached is exit code 16, with the reason', async (t) => {
  const p = await place(t, withoutDaemon);
  const url = 'http://127.0.0.1:1';
  const { code, err } = await p.dibs('--url', url, 'task', 'list');
  assert.equal(code, 16);
  assert.match(err, /cannot reach the daemon at 'http:\/\/127\.0\.0\.1:1': connection refused/);
  assert.match(err, /dibs serve/);
  assert.equal((await p.json('--url', url, 'stats')).error, 'DAEMON_UNREACHABLE');
  for (const args of [['watch'], ['events', '-f'], ['top'], ['claim']]) {
    assert.equal((await p.dibs(...args, '--url', url)).code, 16, args[0]);
  }
});

test('what answers but is no daemon is told with its HTTP status', async (t) => {
  const p = await place(t, withoutDaemon);
  const page = 'HTTP/1.1 503 Busy\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nbusy';
  const server = await listener(t, 0, (socket) => socket.once('data', () => socket.end(page)));
  const url = `http://127.0.0.1:${server.address().port}`;
  const { code, err } = await p.dibs('--url', url, 'task', 'list');
  assert.equal(code, 16);
  assert.match(err, /is not a dibs daemon: HTTP status 503, text\/html/);
});

test('a daemon that accepts and does not answer is not passed over', async (t) => {
  const p = await place(t, withoutDaemon);
  await listener(t, join(p.dir, '.dibs/dibs.sock'), () => {});
  const { code, err } = await p.dibs('task', 'add', 'a');
  assert.equal(code, 16);
  assert.match(err, /has not answered within 10s \(the request may have been carried out\)/);
});

test('settings of a command go around the daemon, and are refused with a URL', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.serve();
  await p.dibs('task', 'add', 'a');
  const { claim } = await p.json('claim', '1', '--default-ttl', '45m');
  assert.equal(claim.ttlMs, 45 * 60_000);
  const { code, err } = await p.dibs('claim', '1', '--default-ttl', '45m', '--url', p.url);
  assert.equal(code, 2);
  assert.match(err, /the daemon has its own; give it to 'dibs serve'/);
});

test('the daemon takes settings as options', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.serve('--default-ttl', '45m');
  await p.dibs('task', 'add', 'a');
  assert.equal((await p.json('claim', '1')).claim.ttlMs, 45 * 60_000);
});

test('what works on the data itself does so beside a daemon, but not by URL', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.serve();
  for (const args of [['config'], ['doctor'], ['backup', 'copy.db'], ['init']]) {
    assert.equal((await p.dibs(...args)).code, 0, args[0]);
  }
  for (const args of [['config'], ['backup', 'other.db'], ['init']]) {
    assert.equal((await p.dibs(...args, '--url', p.url)).code, 2, args[0]);
  }
  const { out } = await p.dibs('doctor', '--url', p.url);
  assert.match(out, /^bad .*works on the data folder itself/);
});

test('--url and --data exclude each other, and a URL is http or https', async (t) => {
  const p = await place(t, withoutDaemon);
  for (const args of [['--url', 'http://127.0.0.1:1', '--data', '.dibs'], ['--url', 'ftp://x'],
    ['--url', 'localhost:7117'], ['--url', '']]) {
    const { code, err } = await p.dibs('task', 'list', ...args);
    assert.equal(code, 2, err);
  }
  const env = { DIBS_URL: 'http://127.0.0.1:1' };
  assert.equal((await p.run(['task', 'list', '--data', '.dibs'], { env })).code, 0);
});

test('a key is taken from DIBS_API_KEY, and its absence is told with the remedy', async (t) => {
  const p = await place(t, withoutDaemon);
  await p.serve();
  const { apiKey } = await p.json('key', 'add', 'ci', '--role', 'worker');
  assert.equal((await p.dibs('task', 'add', 'by socket')).code, 0);
  let refused;
  await until('the daemon asks for a key', async () => {
    refused = await p.dibs('task', 'list', '--url', p.url);
    return refused.code !== 0;
  });
  assert.equal(refused.code, 9);
  assert.match(refused.err, /try: export DIBS_API_KEY=/);
  const env = { DIBS_API_KEY: apiKey };
  const { code, err } = await p.run(['task', 'add', 'by key', '--url', p.url], { env });
  assert.equal(code, 0, err);
  const wrong = { DIBS_API_KEY: `${apiKey}x` };
  assert.equal((await p.run(['task', 'list', '--url', p.url], { env: wrong })).code, 9);
  assert.equal((await p.run(['cleanup', '--url', p.url], { env })).code, 9);
});

test('behind a URL a session says on which machine its process is', async (t) => {
  const p = await place(t, withoutDaemon);
  const bodies = [];
  const server = createHttpServer((request, answer) => {
    let text = '';
    request.on('data', (more) => { text += more; }).on('end', () => {
      bodies.push(JSON.parse(text));
      answer.end('{"success":true,"session":{"id":"x","incarnation":1}}');
    });
  });
  server.listen(0);
  await once(server, 'listening');
  t.after(() => server.close());
  const url = `http://127.0.0.1:${server.address().port}`;
  for (const more of [[], ['--host', 'elsewhere']]) {
    await p.dibs('session', 'register', 'x', '--pid', '7', '--url', url, ...more);
  }
  assert.deepEqual(bodies.map((body) => [body.pid, body.host]),
    [[7, hostname()], [7, 'elsewhere']]);
});

test('a lock outlives the daemon: it is renewed and released on the data file', async (t) => {
  const p = await place(t, withoutDaemon);
  const daemon = await p.serve('--min-ttl', '1s');
  const holder = p.spawn(process.env.DIBS_BIN,
    ['lock', 'deploy', '--ttl', '3s', '--', 'sh', '-c', 'echo held; read line; echo $line'],
    { input: null });
  await until('it holds the lock', () => holder.out.includes('held'));
  daemon.kill('SIGTERM');
  await daemon.ended;
  const token = async () => (await p.json('lock', 'list')).locks[0]?.lastHeartbeat;
  const first = await token();
  await until('it is renewed', async () => (await token()) !== first);
  holder.child.stdin.end('done\n');
  const { code, out, err } = await holder.ended;
  assert.equal(code, 0, err);
  assert.equal(out, 'held\ndone\n');
  assert.deepEqual((await p.json('lock', 'list')).locks, []);
});
