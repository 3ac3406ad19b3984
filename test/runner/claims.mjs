// SPDX-License-Identifier: MIT
// test-timeout: 240
// No claim stays that nobody works on, and none is taken away that somebody does.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { test } from 'node:test';

import { appeared, drained, history, house, lines, put, reached, runner, shell, short, show, stop,
  text, until } from './lib/run.mjs';

const wait = 'touch "$dir/up"; while [ ! -e "$dir/go" ]; do sleep 0.02; done';
const print = (script) => `node -e 'process.stdout.write(${script})'`;
const locks = async (h) => (await h.ok('GET', '/api/locks')).locks.map((lock) => lock.resource);

/** An object of numbers, less than 256 KiB as it is printed and more as it is written again. */
const growing = print(`JSON.stringify({ v: [] }).replace("[]", "[" +
  Array(45000).fill("1e99").join() + "]")`);

test('a JSON object that grows when it is written again is kept as text', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const { code, err } = await drained(h, [], growing);
  assert.equal(code, 0, err);
  const task = await show(h, id);
  assert.equal(task.status, 'completed');
  assert.equal(task.result.exitCode, 0);
  assert.match(task.result.output, /1e99,1e99\]\}$/);
  assert.doesNotMatch(err, /refused/);
});

/** A way to the daemon on which some requests are refused: those for which `no` is true. */
async function strict(t, h, no) {
  const server = http.createServer((from, to) => {
    const pieces = [];
    from.on('data', (piece) => pieces.push(piece)).on('end', () => {
      const body = Buffer.concat(pieces);
      if (no(from.url, body.length > 0 ? JSON.parse(body) : {})) {
        to.writeHead(400, { 'content-type': 'application/json' });
        to.end('{"success":false,"error":"INVALID_REQUEST","message":"I do not like it"}');
        return;
      }
      const { method, url: path, headers } = from;
      http.request({ port: h.port, host: '127.0.0.1', method, path, headers, agent: false },
        (answer) => {
          to.writeHead(answer.statusCode, answer.headers);
          answer.pipe(to);
        }).on('error', () => to.destroy()).end(body);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

test('a result that is refused: the task is completed without it', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const url = await strict(t, h, (path, body) => body.result !== undefined);
  const { code, err } = await drained(h, [], 'echo x', { url });
  assert.equal(code, 0, err);
  assert.match(err, /the report \(completed\) was refused: I do not like it/);
  const task = await show(h, id);
  assert.equal(task.status, 'completed');
  assert.equal(task.result, undefined);
});

test('a report that is refused becomes a failure with the words of the refusal', async (t) => {
  const h = await house(t);
  const id = await h.task({ maxAttempts: 1 });
  const url = await strict(t, h, (path) => path.endsWith('/complete'));
  const { code, err } = await drained(h, [], 'echo x', { url });
  assert.equal(code, 1, err);
  const task = await show(h, id);
  assert.equal(task.status, 'failed');
  assert.equal(task.error, 'I do not like it');
});

test('if no report at all is taken, the task is given back', async (t) => {
  const h = await house(t, short);
  const id = await h.task({ maxAttempts: 1 });
  const url = await strict(t, h, (path) => /[/](complete|fail)$/.test(path));
  const running = shell(h, ['--ttl', '1s'], `test $DIBS_TASK_ID = ${id} || exec sleep 300`,
    { url });
  await until('it is refused', () => running.err.includes('the report (failed) was refused'));
  await h.task({ priority: 9 }); // heartbeats are frequent while it runs
  await until('it is given back', async () =>
    (await history(h, id)).attempts[0].endReason === 'left_behind');
  running.kill('SIGTERM');
  await until('it drains', () => running.err.includes('taking nothing new'));
  await stop(running);
});

test('a task that the command claims itself is left alone while the command runs', async (t) => {
  const h = await house(t, short);
  const { port } = h;
  const outer = await h.task({ type: 'outer' });
  const inner = await h.task({ type: 'inner' });
  const running = shell(h, ['--type', 'outer', '--max', '2', '--ttl', '2s'],
    `"$dibs" claim ${inner} >"$dir/said" 2>&1; ${wait}; "$dibs" done ${inner}`, { url: h.url });
  await appeared(h, 'up');
  assert.equal((await show(h, inner)).status, 'in_progress', text(h, 'said'));
  await h.stop('SIGKILL'); // the request for work, which is on its way, is not answered
  await h.start('--listen', `127.0.0.1:${port}`);
  const before = (await show(h, inner)).claim.heartbeatCount;
  await until('some heartbeats have gone by', async () =>
    (await show(h, inner)).claim?.heartbeatCount >= before + 4);
  put(h, 'go');
  await reached(h, outer, 'completed');
  await reached(h, inner, 'completed');
  await stop(running);
  assert.deepEqual((await history(h, inner)).attempts.map((a) => a.endReason), ['completed']);
});

test('what the command has claimed and left behind is given back when it has ended', async (t) => {
  const h = await house(t, short);
  const outer = await h.task({ type: 'outer' });
  const inner = await h.task({ type: 'inner', maxAttempts: 1 });
  const running = shell(h, ['--type', 'outer', '--ttl', '1s'],
    `test $DIBS_TASK_ID = ${outer} || exec sleep 300
     "$dibs" claim ${inner}; "$dibs" lock take door --ttl 5s`);
  await reached(h, outer, 'completed');
  assert.equal((await show(h, inner)).status, 'in_progress');
  assert.deepEqual(await locks(h), ['door']);
  // one that keeps the runner busy: it does not hold up what was left behind before it
  const other = await h.task({ type: 'outer' });
  await reached(h, other, 'in_progress');
  const task = await reached(h, inner, 'open');
  assert.equal(task.attempts, 0);
  assert.equal((await history(h, inner)).attempts[0].endReason, 'left_behind');
  await until('the lock is free', async () => (await locks(h)).length === 0);
  running.kill('SIGTERM');
  await until('it drains', () => running.err.includes('taking nothing new'));
  const { err } = await stop(running);
  assert.doesNotMatch(err, /refused/);
});

test('what an earlier process with this session has left is given back', async (t) => {
  const h = await house(t, short);
  const id = await h.task({ type: 'old' });
  await h.session('mine');
  await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 'mine' });
  const running = shell(h, ['--session', 'mine', '--type', 'new', '--ttl', '1s'], wait);
  await h.task({ type: 'new' });
  await reached(h, id, 'open'); // while the new one runs: that is not about it
  put(h, 'go');
  await stop(running);
});

test('a session that another living process has is refused; a dead one is not', async (t) => {
  const h = await house(t);
  const first = shell(h, ['--session', 'twice'], 'true');
  await until('it waits', () => first.err.includes('waiting for work as twice'));
  const second = await runner(h, ['--session', 'twice', '--', 'true']).ended;
  assert.equal(second.code, 2, second.err);
  assert.match(second.err, new RegExp(`session 'twice' is in use by process ${first.child.pid}`));
  assert.equal((await h.ok('GET', '/api/sessions/twice')).session.pid, first.child.pid);
  await stop(first, 'SIGKILL');
  const third = await drained(h, ['--session', 'twice'], 'true');
  assert.equal(third.code, 0, third.err);
});

test('a report that nobody heard is a failure of --once and --drain-when-empty', async (t) => {
  const h = await house(t, short);
  await h.task();
  const away = shell(h, ['--once', '--ttl', '3s'], wait, { url: h.url });
  await appeared(h, 'up');
  await h.stop();
  put(h, 'go');
  const { code, err } = await away.ended;
  assert.match(err, /its outcome \(completed\) was not reported/);
  assert.equal(code, 1, err);
});

test('a refused report is a failure of --once, one of the command itself is not', async (t) => {
  const h = await house(t);
  const id = await h.task();
  const lost = await shell(h, ['--once'], '"$dibs" cancel "$DIBS_TASK_ID" >&2').ended;
  assert.match(lost.err, /the report \(completed\) was refused/);
  assert.equal(lost.code, 1, lost.err);
  assert.equal((await show(h, id)).status, 'cancelled');
  const mine = await h.task();
  const own = await shell(h, ['--once'], '"$dibs" done "$DIBS_TASK_ID" --result 7').ended;
  assert.equal(own.code, 0, own.err);
  assert.doesNotMatch(own.err, /refused/);
  assert.equal((await show(h, mine)).result, 7);
});

test('a failing command on messages is not started again and again', async (t) => {
  const h = await house(t);
  await h.ok('POST', '/api/agents', { name: 'boss', isLead: true, project: 'default' });
  await h.ok('POST', '/api/inbox', { content: 'x', agentId: 'boss' });
  const running = shell(h, ['--agent', 'boss'], 'date +%s%3N >>"$dir/times"; false');
  await until('it was tried three times', () => lines(h, 'times').length >= 3);
  await stop(running);
  const [first, second, third] = lines(h, 'times').map(Number);
  assert.ok(second - first >= 900 && third - second >= 1900, text(h, 'times'));
});
