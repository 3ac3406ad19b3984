// SPDX-License-Identifier: MIT
// test-timeout: 240
// The daemon goes and comes back, claims are lost, answers do not arrive, or there is no daemon.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';

import { appeared, gone, history, House, house, lines, lives, program, put, reached, Running,
  runner, shell, short, show, stop, text, until } from './lib/run.mjs';

const hang = 'echo part; echo $$ >"$dir/pid"; touch "$dir/up"; exec sleep 300';
const wait = 'touch "$dir/up"; while [ ! -e "$dir/go" ]; do sleep 0.02; done; echo done';

/** The daemon again, on the port that it had. */
const again = (h, port) => h.start('--listen', `127.0.0.1:${port}`);

test('a cancelled task: its command is stopped, what it printed is kept', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const running = shell(h, ['--ttl', '2s'], hang);
  await appeared(h, 'up');
  await h.ok('POST', `/api/tasks/${id}/cancel`, {});
  await gone(Number(text(h, 'pid')));
  const attempt = await until('the late result is there', async () => {
    const { attempts } = await history(h, id);
    return attempts[0].lateResult ? attempts[0] : null;
  });
  assert.deepEqual(attempt.lateResult, { signal: 'SIGTERM', output: 'part\n' });
  assert.equal((await show(h, id)).status, 'cancelled');
  const { err } = await stop(running);
  assert.match(err, /stopping it: the claim was lost \(cancelled\)/);
  assert.match(err, /the report \(failed\) was refused/);
});

test('a claim that somebody else has now: stopped, and the result is a late one', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const script = `${hang.replace('exec ', 'trap "exit 0" TERM; ')} & wait`;
  const running = shell(h, ['--ttl', '2s'], script);
  await appeared(h, 'up');
  const { claim } = await show(h, id);
  await h.session('other');
  const { sessionId, token } = claim;
  await h.ok('POST', `/api/tasks/${id}/release`, { sessionId, token });
  await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 'other' });
  await gone(Number(text(h, 'pid')));
  const attempt = await until('the late result is there', async () => {
    const { attempts } = await history(h, id);
    return attempts.find((a) => a.token === token && a.lateResult) ?? null;
  });
  assert.equal(attempt.lateResult.output, 'part\n');
  assert.equal((await show(h, id)).claim.sessionId, 'other');
  await stop(running);
});

test('a command that has reported by itself may go on', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const running = shell(h, ['--ttl', '1s'],
    `"$dibs" done "$DIBS_TASK_ID" --result 1 >/dev/null; ${wait}; echo >"$dir/end"`);
  await appeared(h, 'up');
  const beats = async () => (await h.get('/metrics')).text
    .match(/^dibs_requests_total\{operation="sessionHeartbeat",code="200"\} (\d+)$/m)?.[1] ?? 0;
  const first = Number(await beats());
  await until('some heartbeats have gone by', async () => Number(await beats()) >= first + 5);
  put(h, 'go');
  await appeared(h, 'end');
  const { err } = await stop(running);
  assert.doesNotMatch(err, /stopping it/);
  assert.equal((await show(h, id)).result, 1);
});

test('leases are renewed for as long as the command runs', async (t) => {
  const h = await house(t, short);
  const id = await h.task();
  const running = shell(h, ['--ttl', '1s'], wait);
  await appeared(h, 'up');
  await until('it was renewed many times', async () => {
    const { claim, status } = await show(h, id);
    assert.equal(status, 'in_progress');
    return claim.heartbeatCount >= 8;
  });
  put(h, 'go');
  await reached(h, id, 'completed');
  await stop(running);
  assert.equal((await history(h, id)).attempts.length, 1);
});

for (const by of ['socket', 'url']) {
  test(`the daemon is restarted in the middle (${by}): the work goes on`, async (t) => {
    const h = await house(t, short);
    const { port } = h;
    const id = await h.task();
    const running = shell(h, [], wait, { url: by === 'url' ? h.url : undefined });
    await appeared(h, 'up');
    await h.stop();
    await again(h, port);
    put(h, 'go');
    const task = await reached(h, id, 'completed');
    assert.deepEqual(task.result, { exitCode: 0, output: 'done\n' });
    const next = await h.task();
    await reached(h, next, 'completed');
    const { code, err } = await stop(running);
    assert.equal(code, 0, err);
    assert.equal((await history(h, id)).attempts.length, 1);
  });
}

test('the daemon is killed while a runner waits: it waits again when it is back', async (t) => {
  const h = await house(t, short);
  const { port } = h;
  const running = shell(h, [], 'echo x', { url: h.url });
  await until('it waits', () => running.err.includes('waiting for work'));
  await h.stop('SIGKILL');
  await until('it notices', () => /trying again/.test(running.err));
  await again(h, port);
  const id = await h.task();
  await reached(h, id, 'completed');
  const { err } = await stop(running);
  assert.equal(err.match(/trying again/g).length, 1, err);
  assert.match(err, /dibs can be reached again/);
});

test('the daemon is away when the command ends: it is told as soon as it is back', async (t) => {
  const h = await house(t, short);
  const { port } = h;
  const id = await h.task();
  const running = shell(h, ['--ttl', '1m'], wait, { url: h.url });
  await appeared(h, 'up');
  await h.stop();
  put(h, 'go');
  await until('it has ended', () => running.err.includes('completed after'));
  await until('it notices', () => /trying again/.test(running.err));
  await again(h, port);
  const task = await reached(h, id, 'completed');
  assert.deepEqual(task.result, { exitCode: 0, output: 'done\n' });
  await stop(running);
  const { events, attempts } = await history(h, id);
  assert.equal(attempts.length, 1);
  assert.equal(events.filter((e) => e.type === 'task:completed').length, 1);
});

test('the daemon is away for longer than the lease: the command is stopped', async (t) => {
  const h = await house(t, short);
  const { port } = h;
  const id = await h.task();
  const running = shell(h, ['--ttl', '1s'], hang, { url: h.url });
  await appeared(h, 'up');
  const { claim } = await show(h, id);
  await h.stop();
  await gone(Number(text(h, 'pid')));
  await until('it says why', () =>
    /stopping it: the lease is over and could not be renewed/.test(running.err));
  running.kill('SIGTERM'); // nothing new; but the report is still to be made
  await again(h, port);
  const { code, err } = await running.ended;
  assert.equal(code, 0, err);
  const attempt = (await history(h, id)).attempts.find((a) => a.token === claim.token);
  assert.ok(attempt.lateResult !== undefined || attempt.endReason === 'failed' ||
    /was not reported/.test(err), err);
});

test('a runner that drains while the daemon is away ends when the lease is over', async (t) => {
  const h = await house(t, short);
  await h.task();
  const running = shell(h, ['--ttl', '4s'], wait, { url: h.url });
  await appeared(h, 'up');
  await h.stop();
  put(h, 'go');
  running.kill('SIGTERM');
  const { code, err } = await running.ended;
  assert.equal(code, 0, err);
  assert.match(err, /its outcome \(completed\) was not reported/);
});

test('while the daemon is away a runner waits, also when it drains', async (t) => {
  const h = await house(t, short);
  const { port } = h;
  const id = await h.task();
  const running = shell(h, ['--ttl', '1m'], wait, { url: h.url });
  await appeared(h, 'up');
  await h.stop('SIGKILL');
  running.kill('SIGTERM');
  const ticks = () => readFileSync(`/proc/${running.child.pid}/stat`, 'utf8').split(') ')[1]
    .split(' ').slice(11, 13).reduce((sum, n) => sum + Number(n), 0);
  const began = Date.now();
  const before = ticks();
  await until('two seconds are over', () => Date.now() - began > 2000);
  assert.ok(ticks() - before < 50, `${ticks() - before} ticks in 2 s`);
  await again(h, port);
  put(h, 'go');
  const { code, err } = await running.ended;
  assert.equal(code, 0, err);
  assert.equal((await show(h, id)).status, 'completed');
});

/** A way to the daemon on which the answer to the first claim that is granted gets lost. */
async function leaky(t, h, request = 'POST /api/tasks/claim', answer = '"success":true') {
  const state = { lost: 0 };
  const server = net.createServer((front) => {
    const back = net.connect(h.port, '127.0.0.1');
    let asked = '';
    front.on('data', (bytes) => { asked += bytes.toString('latin1'); back.write(bytes); });
    back.on('data', (bytes) => {
      const told = bytes.toString('latin1');
      const granted = asked.includes(request) && told.includes('HTTP/1.1 200') &&
        told.includes(answer);
      if (granted && state.lost === 0) {
        state.lost++;
        front.destroy();
        back.destroy();
      } else {
        front.write(bytes);
      }
    });
    front.on('close', () => back.destroy()).on('error', () => {});
    back.on('close', () => front.destroy()).on('error', () => {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  state.url = `http://127.0.0.1:${server.address().port}`;
  return state;
}

test('a claim whose answer is lost is given back, and the task done once', async (t) => {
  const h = await house(t);
  const way = await leaky(t, h);
  const id = await h.task({ maxAttempts: 1 });
  const running = shell(h, [], 'echo x >>"$dir/runs"', { url: way.url });
  await reached(h, id, 'completed');
  await stop(running);
  assert.equal(way.lost, 1);
  assert.deepEqual(lines(h, 'runs'), ['x']);
  assert.deepEqual((await history(h, id)).attempts.map((a) => a.endReason).sort(),
    ['completed', 'unanswered']);
});

for (const [type, prepare] of Object.entries({
  task_offered: (h) => h.task({ offeredTo: 'ann' }),
  slack_inbox_message: (h) => h.ok('POST', '/api/inbox', { content: 'c', agentId: 'ann' }),
  unread_mentions: async (h) => {
    await h.ok('POST', '/api/channels', { id: 'general' });
    await h.ok('POST', '/api/channels/general/messages', { author: 'x', content: '@ann' });
  },
  tasks_finished: async (h) => {
    const id = await h.task({});
    await h.session('w');
    await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 'w' });
    await h.ok('POST', `/api/tasks/${id}/complete`, { sessionId: 'w' });
  },
})) {
  test(`a trigger whose answer is lost comes again: ${type}`, async (t) => {
    const h = await house(t);
    const way = await leaky(t, h, 'GET /api/poll', type);
    const isLead = type !== 'task_offered';
    await h.ok('POST', '/api/agents', { name: 'ann', isLead, project: 'default' });
    await prepare(h);
    const running = shell(h, ['--agent', 'ann'], 'echo "$DIBS_TRIGGER" >>"$dir/runs"',
      { url: way.url });
    await until('it came', () => lines(h, 'runs').includes(type));
    await until('it is reported', () => running.err.includes(` after 0`));
    const { err } = await stop(running);
    assert.equal(way.lost, 1, err);
    assert.equal(lines(h, 'runs').filter((line) => line === type).length, 1);
    assert.doesNotMatch(err, /refused/);
  });
}

test('without a daemon the runner works on the data file itself', async (t) => {
  const h = new House(t);
  await h.dibs('init');
  await h.dibs('task', 'add', 'one');
  const running = shell(h, [], 'echo "$DIBS_TITLE" >>"$dir/done"; echo 10% >&3');
  await until('the first is done', () => lines(h, 'done').length === 1);
  await h.dibs('task', 'add', 'two');
  await until('the second is done', () => lines(h, 'done').length === 2);
  const { code, err } = await stop(running);
  assert.equal(code, 0, err);
  assert.deepEqual(lines(h, 'done'), ['one', 'two']);
  const { out } = await h.dibs('task', 'list', '--all');
  assert.match(out, /completed[^]*completed/);
});

test('a daemon that comes later is found, and used', async (t) => {
  const h = new House(t, {});
  await h.dibs('init');
  const running = shell(h, [], 'echo x');
  await until('it waits', () => running.err.includes('waiting for work'));
  await h.start();
  const asked = async () => /operation="claimNext"/.test((await h.get('/metrics')).text);
  await until('it asks the daemon', asked);
  const id = await h.task();
  await reached(h, id, 'completed');
  await stop(running);
});

test('a runner needs a store that it can reach', async (t) => {
  const h = new House(t);
  const none = await runner(h, ['--', 'true']).ended;
  assert.equal(none.code, 15, none.err);
  const away = await runner(h, ['--', 'true'], { url: 'http://127.0.0.1:1' }).ended;
  assert.equal(away.code, 16, away.err);
});

test('a runner inside another one is a session of its own', async (t) => {
  const h = await house(t);
  const outer = await h.task({ type: 'outer' });
  const inner = await h.task({ type: 'inner' });
  const running = new Running(program, ['--data', h.data, 'run', '--once', '--type', 'outer', '--',
    program, 'run', '--once', '--type', 'inner', '--', 'echo', 'deep'],
  { cwd: h.dir, timeout: 60_000 });
  h.started.push(running);
  const { code, err } = await running.ended;
  assert.equal(code, 0, err);
  const sessions = [outer, inner].map(async (id) =>
    (await history(h, id)).attempts[0].sessionId);
  assert.notEqual(await sessions[0], await sessions[1]);
  assert.equal((await show(h, inner)).result.output, 'deep\n');
  assert.equal(lives(running.child.pid), false);
});
