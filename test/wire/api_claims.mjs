// SPDX-License-Identifier: MIT
// Claims over the wire: take, keep, report, lose, and the next task in the same request.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';

const pull = (h, more = {}) => h.post('/api/tasks/claim', { worker_id: 'w', ...more });

/** A daemon with tasks of these ids, in this order, and a worker w that has the first. */
async function working(t, ids, options) {
  const h = await house(t, options);
  for (const id of ids) await h.task({ id });
  const { json } = await pull(h);
  assert.equal(json.task.id, ids[0]);
  return Object.assign(h, { token: json.task.token });
}

const statusOf = async (h, id) => (await h.ok('GET', `/api/tasks/${id}`)).task.status;

test('the holder who claims again extends its lease under the same token', async (t) => {
  const h = await working(t, ['a']);
  const { claim } = await h.ok('POST', '/api/tasks/a/claim', { sessionId: 'w', ttlMs: 7_200_000 });
  assert.deepEqual([claim.token, claim.extended, claim.heartbeatCount], [h.token, true, 1]);
  assert.ok(claim.remainingMs > 7_000_000);
});

test('tokens only grow, also across restarts', async (t) => {
  const h = await working(t, ['a']);
  let last = h.token;
  for (const signal of ['SIGTERM', 'SIGKILL']) {
    await h.ok('POST', '/api/tasks/a/release', { sessionId: 'w', token: last });
    await h.stop(signal);
    await h.start();
    const { token } = (await pull(h)).json.task;
    assert.ok(token > last);
    last = token;
  }
});

test('a lease is as long as was asked, within the bounds that a refusal names', async (t) => {
  const h = await house(t);
  await h.session('s');
  await h.task({ id: 'a', claimTimeoutMs: 120_000 });
  for (const ttlMs of [59_999, 7_200_001, 1, 9e15]) {
    const answer = await h.post('/api/tasks/a/claim', { sessionId: 's', ttlMs });
    assert.deepEqual([answer.status, answer.json.field], [400, 'ttlMs']);
    assert.match(answer.json.message, /1m.*2h/);
  }
  const lease = async (more) => {
    const { claim } = await h.ok('POST', '/api/tasks/a/claim', { sessionId: 's', ...more });
    await h.ok('POST', '/api/tasks/a/release', { sessionId: 's' });
    return Date.parse(claim.expiresAt) - Date.parse(claim.claimedAt);
  };
  assert.deepEqual(
    [await lease({ ttlMs: 60_000 }), await lease({ ttlMs: 7_200_000 }), await lease({})],
    [60_000, 7_200_000, 120_000]);
  assert.equal((await pull(h, { ttl_ms: 1 })).json.field, 'ttl_ms');
});

test('progress is kept, shown, and its checkpoint given to the next holder', async (t) => {
  const h = await working(t, ['a']);
  const checkpoint = { page: 7, seen: ['x'] };
  const { claim } = await h.ok(
    'POST', '/api/tasks/a/progress', { sessionId: 'w', percent: 40, message: 'm', checkpoint });
  assert.deepEqual([claim.progress, claim.checkpoint], [{ percent: 40, message: 'm' }, checkpoint]);
  for (const percent of [-1, 101, 'half'])
    assert.equal(
      (await h.post('/api/tasks/a/progress', { sessionId: 'w', percent })).json.field, 'percent');
  await h.ok('POST', '/api/tasks/a/release', { sessionId: 'w' });
  assert.deepEqual((await pull(h, { worker_id: 'v' })).json.task.checkpoint, checkpoint);
});

test('a release gives the attempt back; failed fails, completed completes', async (t) => {
  const h = await working(t, ['a', 'b', 'c']);
  await pull(h, { count: 2 });
  for (const [id, reason, status, attempts] of [['a', 'changed my mind', 'open', 0],
         ['b', 'failed', 'open', 1], ['c', 'completed', 'completed', 1]]) {
    const { task, released } =
      await h.ok('POST', `/api/tasks/${id}/release`, { sessionId: 'w', reason });
    assert.deepEqual([released.reason, task.status, task.attempts], [reason, status, attempts]);
  }
});

test('complete keeps the result; the same again is fine, another is refused', async (t) => {
  const h = await working(t, ['a']);
  const report = (result) =>
    h.post('/api/tasks/a/complete', { sessionId: 'w', token: h.token, result });
  assert.deepEqual((await report({ n: 1 })).json.task.result, { n: 1 });
  assert.equal((await report({ n: 1 })).status, 200);
  const other = await report({ n: 2 });
  assert.deepEqual([other.status, other.json.error], [409, 'ALREADY_FINISHED']);
  assert.deepEqual((await h.ok('GET', '/api/tasks/a')).task.result, { n: 1 });
});

test('fail puts the task back until its attempts are used up, or at once for good', async (t) => {
  const h = await working(t, ['a', 'b']);
  const first = await h.ok('POST', '/api/tasks/a/fail', { sessionId: 'w', error: 'disk' });
  assert.deepEqual([first.task.status, first.task.error], ['open', 'disk']);
  await pull(h);
  const second =
    await h.ok('POST', '/api/tasks/b/fail', { sessionId: 'w', error: 'never', permanent: true });
  assert.equal(second.task.status, 'failed');
  await h.task({ id: 'c', maxAttempts: 1 });
  await pull(h);
  assert.equal((await h.ok('POST', '/api/tasks/c/fail', { sessionId: 'w' })).task.status, 'failed');
});

test('complete and fail may claim the next task in the same request', async (t) => {
  const h = await working(t, ['a', 'b', 'c']);
  const done =
    await h.ok('POST', '/api/tasks/a/complete', { sessionId: 'w', result: 1, claimNext: {} });
  assert.deepEqual([done.task.status, done.next.task.id, done.next.task.status],
    ['completed', 'b', 'in_progress']);
  assert.ok(done.next.claim.token > h.token);
  const failed = await h.ok(
    'POST', '/api/tasks/b/fail', { sessionId: 'w', permanent: true, claimNext: { ttlMs: 60_000 } });
  assert.deepEqual(
    [failed.task.status, failed.next.task.id, failed.next.claim.ttlMs], ['failed', 'c', 60_000]);
  const last = await h.ok('POST', '/api/tasks/c/complete', { sessionId: 'w', claimNext: {} });
  assert.equal(last.next, null);
  assert.equal((await h.ok('POST', '/api/tasks/c/complete', { sessionId: 'w' })).next, undefined);
});

test('the next task is chosen by the filters of claimNext, in either dialect', async (t) => {
  const h = await working(t, ['a']);
  await h.task({ id: 'x', type: 'x', priority: 90 });
  await h.task({ id: 'y', type: 'y', tags: ['t'] });
  await h.task({ id: 'z', type: 'y', project: 'far' });
  const next = async (id, claimNext) =>
    (await h.ok('POST', `/api/tasks/${id}/complete`, { sessionId: 'w', claimNext })).next?.task.id;
  assert.equal(await next('a', { types: ['y'], tags: ['t'] }), 'y');
  assert.equal(await next('y', { task_types: ['y'], project: 'far' }), 'z');
  assert.equal(await next('z', { sort_by: 'created_at', sort_order: 'asc' }), 'x');
});

test('a claimNext that cannot be takes the report back with it', async (t) => {
  const h = await working(t, ['a', 'b']);
  for (const [claimNext, field] of [[{ ttlMs: 1 }, 'claimNext.ttlMs'],
         [{ colour: 1 }, 'claimNext.colour'], [{ sortBy: 'size' }, 'claimNext.sortBy'],
         [{ waitMs: 5 }, 'claimNext.waitMs'], [{ count: 2 }, 'claimNext.count'],
         [true, 'claimNext'], [[], 'claimNext'],
         [{ types: ['a'], task_types: ['a'] }, 'claimNext.task_types']]) {
    const answer = await h.post('/api/tasks/a/complete', { sessionId: 'w', claimNext });
    assert.deepEqual([answer.status, answer.json.field], [400, field], answer.text);
  }
  assert.deepEqual([await statusOf(h, 'a'), await statusOf(h, 'b')], ['in_progress', 'open']);
});

test('a report that is refused claims nothing', async (t) => {
  const h = await working(t, ['a', 'b']);
  await h.session('other');
  for (const verb of ['complete', 'fail']) {
    const answer =
      await h.post(`/api/tasks/a/${verb}`, { sessionId: 'other', result: 1, claimNext: {} });
    assert.equal(answer.json.error, 'NOT_CLAIM_OWNER');
    assert.equal(answer.json.next, undefined);
  }
  assert.equal(await statusOf(h, 'b'), 'open');
});

test('count claims up to so many at once, each with its own token', async (t) => {
  const h = await house(t);
  await h.ok('POST', '/api/tasks', Array.from({ length: 120 }, (_, i) => ({ title: `t${i}` })));
  const first = (await pull(h, { count: 100 })).json;
  assert.equal(first.tasks.length, 100);
  assert.deepEqual(first.task, first.tasks[0]);
  assert.equal(new Set(first.tasks.map(({ token }) => token)).size, 100);
  const rest = (await pull(h, { count: 100 })).json;
  assert.deepEqual(rest.tasks.map(({ id }) => id), Array.from({ length: 20 }, (_, i) => 101 + i));
  assert.equal((await pull(h, { count: 100 })).status, 404);
  for (const count of [0, -1, 101, 1.5, 'all'])
    assert.equal((await pull(h, { count })).json.field, 'count');
});

test('who comes back too late is told so, and may still complete what nobody took', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await h.task({ id: 'a' });
  const { token } = (await pull(h, { ttl_ms: 1000 })).json.task;
  await until('the lease has ended', async () => await statusOf(h, 'a') === 'open');
  const late = await h.post('/api/tasks/a/claim/heartbeat', { sessionId: 'w', token });
  assert.deepEqual(
    [late.status, late.json.error, late.json.taskStatus], [410, 'CLAIM_EXPIRED', 'open']);
  const { task } =
    await h.ok('POST', '/api/tasks/a/complete', { sessionId: 'w', token, result: 'late' });
  assert.deepEqual([task.status, task.result], ['completed', 'late']);
});

test('who comes back when another has the task is refused, and its result is kept', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await h.task({ id: 'a' });
  const { token } = (await pull(h, { ttl_ms: 1000 })).json.task;
  const { json } = await pull(h, { worker_id: 'v', wait_ms: 60_000 });
  assert.ok(json.task.token > token);
  const answer = await h.post('/api/tasks/a/complete', { sessionId: 'w', token, result: 'mine' });
  assert.deepEqual([answer.status, answer.json.error, answer.json.claim.sessionId],
    [403, 'NOT_CLAIM_OWNER', 'v']);
  const { attempts, events } = await h.ok('GET', '/api/tasks/a/history');
  assert.deepEqual(
    attempts.map(({ sessionId, endReason, lateResult }) => [sessionId, endReason, lateResult]),
    [['w', 'expired', 'mine'], ['v', undefined, undefined]]);
  assert.ok(events.some(({ type }) => type === 'task:late-result'));
});

test('a holder learns of a cancel in its next heartbeat, of claim and of session', async (t) => {
  const h = await working(t, ['a']);
  await h.ok('POST', '/api/tasks/a/cancel', { reason: 'no longer wanted' });
  const beat = await h.post('/api/tasks/a/claim/heartbeat', { sessionId: 'w' });
  assert.deepEqual(
    [beat.status, beat.json.cancelRequested, beat.json.taskStatus], [404, true, 'cancelled']);
  const news = await h.ok('POST', '/api/sessions/w/heartbeat');
  assert.deepEqual([news.cancelRequested, news.claims], [['a'], []]);
});

test('statistics, scores and what is in flight count what was done', async (t) => {
  const h = await working(t, ['a', 'b', 'c']);
  await h.ok('POST', '/api/tasks/a/complete', { sessionId: 'w', claimNext: {} });
  await h.session('other');
  await h.post('/api/tasks/b/claim', { sessionId: 'other' });
  const { stats } = await h.ok('GET', '/api/tasks/claims/stats');
  assert.deepEqual([stats.total, stats.active, stats.bySession, stats.tasksByStatus],
    [1, 1, { w: 1 }, { open: 1, in_progress: 1, completed: 1 }]);
  assert.deepEqual([stats.totals.claimed, stats.totals.completed, stats.totals.refused], [2, 1, 1]);
  const { scores } = await h.ok('GET', '/api/agents/scores');
  assert.deepEqual(
    scores.map(({ agent, claimed, completed }) => [agent, claimed, completed]).sort(),
    [['other', 0, 0], ['w', 2, 1]]);
  assert.equal((await h.ok('GET', '/api/tasks/in-flight?limit=1')).summary.total, 1);
});

test('cleanup takes one kind at a time, and no field that its kind would ignore', async (t) => {
  const h = await working(t, ['a']);
  const clean = (body) => h.post('/api/tasks/claims/cleanup', body);
  for (const type of ['all', 'expired', 'orphaned', 'locks', 'sessions', 'events'])
    assert.equal((await clean({ type })).json.cleaned.count, 0, type);
  for (const [body, field] of [[{ type: 'session' }, 'sessionId'],
         [{ type: 'all', sessionId: 'w' }, 'sessionId'],
         [{ type: 'expired', checkPid: true }, 'checkPid'], [{ reason: 'x' }, 'reason'],
         [{ type: 'nosuch' }, 'type']])
    assert.deepEqual([(await clean(body)).status, (await clean(body)).json.field], [400, field]);
  const { cleaned } = (await clean({ type: 'session', sessionId: 'w', reason: 'gone home' })).json;
  assert.deepEqual(
    [cleaned.count, cleaned.claims[0].taskId, cleaned.reason], [1, 'a', 'gone home']);
  assert.equal(await statusOf(h, 'a'), 'open');
});
