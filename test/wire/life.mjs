// SPDX-License-Identifier: MIT
// The daemon's life: it starts, says where, serves, and ends without losing or leaving anything.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';

import { House, house, program, Running, until } from './lib/daemon.mjs';

test('it says where it listens, and answers there and on its unix socket', async (t) => {
  const h = await house(t);
  assert.equal((await h.get('/healthz')).json.status, 'ok');
  assert.equal((await h.get('/healthz', { socket: true })).json.status, 'ok');
  assert.equal(statSync(h.socket).mode & 0o777, 0o600);
});

test('SIGTERM ends it with 0 and leaves neither socket nor lock file behind', async (t) => {
  const h = await house(t);
  await h.task();
  const { code, signal, err } = await h.stop();
  assert.deepEqual({ code, signal }, { code: 0, signal: null });
  assert.doesNotMatch(err, /cannot|error/i);
  assert.deepEqual(readdirSync(h.data).filter((name) => /sock|daemon/.test(name)), []);
});

test('a request that was accepted is answered although the daemon stops', async (t) => {
  const h = await house(t);
  const ask = (_, i) => h.post('/api/tasks', { id: `t${i}`, title: 'x' });
  const asked = Array.from({ length: 50 }, ask);
  await Promise.race(asked); // some are done, the others on their way
  h.daemon.kill('SIGTERM');
  const answers = await Promise.allSettled(asked);
  await h.daemon.ended;
  await h.start();
  for (const [i, { status, value }] of answers.entries()) {
    if (status === 'fulfilled' && value.status === 201) {
      assert.equal((await h.get(`/api/tasks/t${i}`)).status, 200, `t${i} was promised`);
    }
  }
});

test('those who wait for a task are told that there is none when the daemon stops', async (t) => {
  const h = await house(t);
  const waiting = h.post('/api/tasks/claim', { worker_id: 'w', wait_ms: 60_000 });
  await until('it waits', async () => /queue="parked"\} 1/.test((await h.get('/metrics')).text));
  const stopped = h.stop();
  const answer = await waiting;
  assert.equal(answer.status, 404);
  assert.equal(answer.json.error, 'NOTHING_TO_CLAIM');
  assert.equal((await stopped).code, 0);
});

test('a second daemon on the same folder is refused', async (t) => {
  const h = await house(t);
  for (const which of ['second', 'third']) {
    const { code, err } = await new Running(program,
      ['--data', h.data, 'serve', '--listen', '127.0.0.1:0'], {}).ended;
    assert.notEqual(code, 0, which);
    assert.match(err, /another daemon serves/, which);
  }
  assert.equal((await h.get('/healthz')).status, 200);
});

test('a socket file left behind by a killed daemon is replaced', async (t) => {
  const h = await house(t);
  await h.stop('SIGKILL');
  assert.ok(existsSync(h.socket));
  await h.start();
  assert.equal((await h.get('/healthz', { socket: true })).status, 200);
});

test('an address that others can reach is refused while there is no key', async (t) => {
  const h = new House(t);
  await h.dibs('init');
  const { code, err } = await new Running(program,
    ['--data', h.data, 'serve', '--listen', '0.0.0.0:0'], {}).ended;
  assert.equal(code, 9);
  assert.match(err, /dibs key add/);
});

test('an address that cannot be read is refused with how to write it', async (t) => {
  const h = new House(t);
  await h.dibs('init');
  for (const address of ['localhost', '1.2.3:80', '127.0.0.1:99999', '[::1', 'unix:']) {
    const { code, err } = await new Running(program,
      ['--data', h.data, 'serve', '--listen', address], {}).ended;
    assert.equal(code, 2, address);
    assert.match(err, /ADDRESS:PORT/, address);
  }
});

test('SIGHUP reads the settings again, and keeps them when they cannot be read', async (t) => {
  const h = await house(t);
  const ttl = async () => {
    const id = await h.task();
    await h.session('s');
    const { claim } = await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 's' });
    await h.ok('POST', `/api/tasks/${id}/complete`, { sessionId: 's' });
    return claim.ttlMs ?? Date.parse(claim.expiresAt) - Date.parse(claim.claimedAt);
  };
  assert.equal(await ttl(), 30 * 60_000);
  h.configure(['defaultTTL = 45m']);
  h.daemon.kill('SIGHUP');
  await until('the new setting is in force', async () => await ttl() === 45 * 60_000);
  h.configure(['defaultTTL = never']);
  h.daemon.kill('SIGHUP');
  await until('it complains', () => /settings stay as they were/.test(h.daemon.err));
  assert.equal(await ttl(), 45 * 60_000);
});

test('readiness is told to the socket that the environment names', async (t) => {
  const h = new House(t);
  const path = join(h.dir, 'notify');
  // a datagram socket in the file system: node has none, so the shell's python stands in
  const listener = new Running('python3', ['-c', `
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("bound", flush=True)
while True:
    print(s.recv(1000).decode(), flush=True)
`, path], {});
  h.started.push(listener);
  await until('the listener is there', () => listener.out.includes('bound'));
  h.options.env = { NOTIFY_SOCKET: path };
  await h.start();
  await until('READY', () => listener.out.includes('READY=1'));
  await h.stop();
  await until('STOPPING', () => listener.out.includes('STOPPING=1'));
});

test('a socket that systemd opened is served, and no other on TCP', async (t) => {
  const h = new House(t);
  await h.dibs('init');
  h.daemon = new Running('python3', ['-c', `
import os, socket, sys
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[1], sys.argv[1:])
`, program, '--data', h.data, 'serve'], {});
  h.started.push(h.daemon);
  await until('it listens', () => h.daemon.out.includes('dashboard at'));
  const urls = [...h.daemon.out.matchAll(/listening on http:\S+:(\d+)/g)];
  assert.equal(urls.length, 1);
  h.port = Number(urls[0][1]);
  assert.equal((await h.get('/healthz')).status, 200);
  assert.equal((await h.stop()).code, 0);
});
