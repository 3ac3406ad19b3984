// SPDX-License-Identifier: MIT
// dibs lock take, release, heartbeat, list, and dibs lock RESOURCE -- CMD.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place, program, until } from './lib/dibs.mjs';

const locks = async (p) => (await p.json('lock', 'list')).locks;

/** Whether a process is there and is no zombie that waits for its parent. */
function lives(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Starts `dibs lock x -- sh -c script` and waits until the script has printed a line. */
async function hold(p, script, ...options) {
  const running = p.start('lock', 'x', ...options, '--', 'sh', '-c', script);
  await until('the command runs', () => running.out.includes('\n'));
  return running;
}

test('take, heartbeat, list and release', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('lock', 'list')).out, 'no locks\n');
  assert.match((await p.dibs('lock', 'take', 'a/path with blanks', '--ttl', '5m')).out,
    /^locked 'a\/path with blanks' until \d\d:\d\d:\d\d \(token 1\) as tester\n$/);
  assert.match((await p.dibs('lock', 'take', 'a/path with blanks')).out, /^still yours: /);
  assert.match((await p.dibs('lock', 'list')).out, /^a\/path with blanks +exclusive +tester +1 /m);
  assert.match((await p.dibs('lock', 'heartbeat', 'a/path with blanks')).out, /^renewed /);
  assert.equal((await p.dibs('lock', 'release', 'a/path with blanks')).out,
    "released 'a/path with blanks'\n");
  assert.deepEqual(await locks(p), []);
});

test('a lock that another holds is exit code 4, one that you do not hold 5', async (t) => {
  const p = await place(t);
  await p.as('ann', 'lock', 'take', 'x');
  const { code, err } = await p.dibs('lock', 'take', 'x');
  assert.equal(code, 4);
  assert.match(err, /'ann'/);
  assert.equal((await p.dibs('lock', 'take', 'x', '--wait', '50ms')).code, 4);
  assert.equal((await p.dibs('lock', 'release', 'x')).code, 5);
  assert.equal((await p.dibs('lock', 'heartbeat', 'x')).code, 5);
  assert.equal((await p.as('ann', 'lock', 'release', 'x', '--token', '99')).code, 5);
  assert.equal((await p.dibs('lock', 'take', 'x', '--ttl', '1ms')).code, 2);
});

test('shared holders share, and keep an exclusive one out', async (t) => {
  const p = await place(t);
  assert.equal((await p.as('ann', 'lock', 'take', 'x', '--shared')).code, 0);
  assert.equal((await p.as('bob', 'lock', 'take', 'x', '--shared')).code, 0);
  assert.equal((await p.as('eve', 'lock', 'take', 'x')).code, 4);
  assert.equal((await p.dibs('lock', 'list', '--session', 'bob', '-q')).out, 'x\n');
});

test('the exit code is that of the command', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('lock', 'x', '--', 'true')).code, 0);
  assert.equal((await p.dibs('lock', 'x', '--', 'sh', '-c', 'exit 7')).code, 7);
  assert.equal((await p.dibs('lock', 'x', '--', 'sh', '-c', 'kill -KILL $$')).code, 128 + 9);
  assert.equal((await p.dibs('lock', 'x', '--', 'no-such-command')).code, 127);
  assert.equal((await p.dibs('lock', 'x', '--', '/etc/passwd')).code, 126);
  assert.equal((await p.dibs('lock', 'x')).code, 2);
  assert.deepEqual(await locks(p), [], 'released each time');
});

test('the command gets its arguments and streams as they are, and the token', async (t) => {
  const p = await place(t);
  const script = 'cat; echo "$1 $DIBS_LOCK_RESOURCE $DIBS_LOCK_TOKEN"';
  const args = ['lock', 'x y', '--', 'sh', '-c', script, 'sh', '--json -q'];
  const { out, err } = await p.run(args, { input: 'in\n' });
  assert.equal(out, 'in\n--json -q x y 1\n');
  assert.equal(err, '');
});

test('the lock is held while the command runs, and nobody else gets it', async (t) => {
  const p = await place(t);
  const running = await hold(p, 'echo ready; exec cat /dev/zero > /dev/null');
  const [lock] = await locks(p);
  assert.equal(lock.resource, 'x');
  assert.match(lock.sessionId, /^tester\.lock-\d+$/);
  const second = await p.dibs('lock', 'x', '--', 'echo', 'never');
  assert.equal(second.code, 4, 'also in the same terminal and session');
  assert.equal(second.out, '');
  running.kill('SIGTERM');
  assert.equal((await running.ended).code, 128 + 15);
  assert.deepEqual(await locks(p), []);
});

test('--wait gets the lock when the holder is done', async (t) => {
  const p = await place(t);
  await p.as('ann', 'lock', 'take', 'x');
  const waiting = p.start('lock', 'x', '--wait', '20s', '--', 'echo', 'mine');
  await until('it waits', async () => (await p.json('session', 'list')).sessions.length === 2);
  assert.equal(waiting.out, '');
  await p.as('ann', 'lock', 'release', 'x');
  const { code, out } = await waiting.ended;
  assert.equal(code, 0);
  assert.equal(out, 'mine\n');
});

test('signals reach the command, which may end as it likes', async (t) => {
  const p = await place(t);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1']) {
    const trap = `trap 'echo got; exit 3' ${signal.slice(3)}; echo ready; while :; do :; done`;
    const running = await hold(p, trap);
    running.kill(signal);
    const { code, out } = await running.ended;
    assert.equal(code, 3, signal);
    assert.equal(out, 'ready\ngot\n');
  }
});

test('a lease shorter than the command is renewed', async (t) => {
  const p = await place(t);
  const running = await hold(p, 'echo ready; exec cat /dev/zero > /dev/null', '--ttl', '1s');
  await until('it has been renewed three times', async () => {
    const [lock] = await locks(p);
    assert.equal(lock.token, 1);
    return lock.heartbeatCount >= 3;
  });
  running.kill('SIGTERM');
  await running.ended;
});

test('when the lock is lost the command is stopped and the exit code is 5', async (t) => {
  const p = await place(t);
  const running = await hold(p, 'echo ready; exec cat /dev/zero > /dev/null', '--ttl', '1s');
  const [lock] = await locks(p);
  assert.equal((await p.as(lock.sessionId, 'lock', 'release', 'x')).code, 0);
  const { code, err } = await running.ended;
  assert.equal(code, 5);
  assert.match(err, /^dibs: the lock 'x' was lost, stopping 'sh': /);
});

test('a command that ignores SIGTERM is killed five seconds later', async (t) => {
  const p = await place(t);
  const script = "trap '' TERM; echo $$; while :; do :; done";
  const running = await hold(p, script, '--ttl', '1s');
  const pid = Number(running.out);
  const [lock] = await locks(p);
  await p.as(lock.sessionId, 'lock', 'release', 'x');
  const { code } = await running.ended;
  assert.equal(code, 5);
  assert.equal(lives(pid), false);
});

test('a lock lost just before the command ended is exit code 5 too', async (t) => {
  const p = await place(t);
  const steal = '"$1" lock release x --session "$("$1" lock list --json |' +
    ' sed \'s/.*"sessionId":"\\([^"]*\\)".*/\\1/\')"';
  const { code, err } = await p.dibs('lock', 'x', '--', 'sh', '-c', steal, 'sh', program);
  assert.equal(code, 5, err);
  assert.match(err, /lost the lock 'x' before/);
});

test('killed with SIGKILL, it takes the command along and the lock is free again', async (t) => {
  const p = await place(t);
  const running = await hold(p, 'echo $$; exec cat /dev/zero > /dev/null');
  const pid = Number(running.out);
  running.kill('SIGKILL');
  await until('the command is gone', () => !lives(pid));
  await p.dibs('cleanup');
  assert.deepEqual(await locks(p), []);
  assert.equal((await p.dibs('lock', 'x', '--', 'true')).code, 0);
});

test('--session holds it as that session, but not twice', async (t) => {
  const p = await place(t);
  const list = ['lock', 'x', '--session', 'ann', '--', program, 'lock', 'list', '--json'];
  const { code, out } = await p.dibs(...list);
  assert.equal(code, 0);
  assert.equal(JSON.parse(out).locks[0].sessionId, 'ann');
  await p.as('ann', 'lock', 'take', 'x');
  const again = await p.dibs('lock', 'x', '--session', 'ann', '--', 'echo', 'never');
  assert.equal(again.code, 4);
  assert.equal(again.out, '');
  assert.equal((await locks(p)).length, 1, 'what ann took is still hers');
});

test('no descriptor of the store reaches the command', async (t) => {
  const p = await place(t);
  const { out } = await p.dibs('lock', 'x', '--', 'ls', '-l', '/proc/self/fd');
  assert.doesNotMatch(out, /dibs\.db/);
});
