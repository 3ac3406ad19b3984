// SPDX-License-Identifier: MIT
// Sessions and locks over the wire.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';

test('a session comes back with every field; again is its next incarnation', async (t) => {
  const h = await house(t);
  const given = {
    id: 's',
    project: 'p',
    agentType: 'cli',
    agentId: 'ann',
    pid: process.pid,
    metadata: { a: [1] }
  };
  const first = await h.post('/api/sessions', given);
  assert.deepEqual([first.status, first.json.session.incarnation, first.json.session.status],
    [201, 1, 'active']);
  for (const [name, value] of Object.entries(given))
    assert.deepEqual(first.json.session[name], value, name);
  const second = await h.post('/api/sessions', { id: 's' });
  assert.deepEqual(
    [second.status, second.json.session.incarnation, second.json.session.project], [200, 2, 'p']);
});

test('a session without an id is given a number', async (t) => {
  const h = await house(t);
  const numbers = [await h.session(), await h.session()];
  assert.match(numbers[0], /^\d+$/);
  assert.notEqual(numbers[0], numbers[1]);
});

test('fields that cannot be are refused by name', async (t) => {
  const h = await house(t);
  for (const [field, value] of [['id', 'a b'], ['id', 'summary'], ['pid', 0], ['pid', -1],
         ['pid', 2 ** 31], ['pid', 'x'], ['host', 7], ['agentId', 'a/b'],
         ['agentType', 'x'.repeat(129)], ['name', 'x']]) {
    const answer = await h.post('/api/sessions', { [field]: value });
    assert.deepEqual([answer.status, answer.json.field], [400, field]);
  }
  assert.deepEqual((await h.ok('GET', '/api/sessions?all')).sessions, []);
});

test('a new incarnation keeps what the session holds', async (t) => {
  const h = await house(t);
  await h.session('s');
  await h.task({ id: 'a' });
  const { claim } = await h.ok('POST', '/api/tasks/a/claim', { sessionId: 's' });
  await h.session('s');
  await h.ok('POST', '/api/tasks/a/complete', { sessionId: 's', token: claim.token });
});

test('a heartbeat renews all that the session holds, and tells what it lost', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await h.session('s');
  for (const id of ['kept', 'lost']) await h.task({ id });
  await h.ok('POST', '/api/tasks/kept/claim', { sessionId: 's' });
  await h.ok('POST', '/api/tasks/lost/claim', { sessionId: 's', ttlMs: 1000 });
  await h.ok('POST', '/api/locks', { resource: 'r', sessionId: 's' });
  await until('a lease has ended',
    async () => (await h.ok('GET', '/api/tasks/lost')).task.status === 'open');
  const news = await h.ok('POST', '/api/sessions/s/heartbeat');
  assert.deepEqual(
    news.claims.map(({ taskId, resource }) => taskId ?? resource).sort(), ['kept', 'r']);
  assert.deepEqual(
    news.lost.map(({ taskId, endReason }) => [taskId, endReason]), [['lost', 'expired']]);
  assert.deepEqual((await h.ok('POST', '/api/sessions/s/heartbeat')).lost, [], 'each is told once');
});

test('resume gives back what was lost and nobody took', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await h.session('s');
  for (const id of ['free', 'taken']) {
    await h.task({ id });
    await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 's', ttlMs: 1000 });
  }
  await until('the leases have ended',
    async () => (await h.ok('GET', '/api/tasks?status=open')).tasks.length === 2);
  await h.session('other');
  await h.ok('POST', '/api/tasks/taken/claim', { sessionId: 'other' });
  const { resumed, gone } = await h.ok('POST', '/api/sessions/s/resume');
  assert.deepEqual(resumed.map(({ task, claim }) => [task.id, claim.sessionId]), [['free', 's']]);
  assert.deepEqual(gone.map(({ taskId }) => taskId), ['taken']);
});

test('the end of a session gives back its tasks and locks', async (t) => {
  const h = await house(t);
  await h.session('s');
  await h.task({ id: 'a' });
  await h.ok('POST', '/api/tasks/a/claim', { sessionId: 's' });
  await h.ok('POST', '/api/locks', { resource: 'r', sessionId: 's' });
  const { claimsReleased, locksReleased, deregistered } = await h.ok('DELETE', '/api/sessions/s');
  assert.deepEqual([claimsReleased, locksReleased, deregistered], [1, 1, true]);
  assert.equal((await h.ok('GET', '/api/tasks/a')).task.status, 'open');
  assert.deepEqual((await h.ok('GET', '/api/locks')).locks, []);
  assert.deepEqual((await h.ok('GET', '/api/sessions')).sessions, []);
  assert.equal(
    (await h.ok('GET', '/api/sessions?all=true')).sessions[0].endReason, 'session_deregistered');
});

test('lists of sessions go on page by page, and by project', async (t) => {
  const h = await house(t);
  for (let i = 0; i < 7; i++) await h.session(`s${i}`, { project: i < 3 ? 'a' : 'b' });
  const first = await h.ok('GET', '/api/sessions?limit=5');
  const second =
    await h.ok('GET', `/api/sessions?limit=5&cursor=${encodeURIComponent(first.nextCursor)}`);
  assert.deepEqual([...first.sessions, ...second.sessions].map(({ id }) => id).sort(),
    Array.from({ length: 7 }, (_, i) => `s${i}`));
  assert.equal(second.nextCursor, undefined);
  assert.equal((await h.ok('GET', '/api/sessions?project=a')).sessions.length, 3);
});

test('the summary shows who works on what, and what was completed', async (t) => {
  const h = await house(t);
  await h.session('s');
  for (const id of ['a', 'b']) {
    await h.task({ id, phase: 'p' });
    await h.ok('POST', `/api/tasks/${id}/claim`, { sessionId: 's' });
  }
  await h.ok('POST', '/api/tasks/a/complete', { sessionId: 's' });
  const { globalMetrics, sessions, recentCompletions } = await h.ok('GET', '/api/sessions/summary');
  assert.deepEqual([globalMetrics.activeCount, globalMetrics.inFlight], [1, 1]);
  assert.deepEqual(
    [sessions[0].claimInfo.taskId, sessions[0].claimInfo.healthStatus], ['b', 'healthy']);
  assert.deepEqual(
    recentCompletions.map(({ taskId, sessionId }) => [taskId, sessionId]), [['a', 's']]);
  assert.deepEqual((await h.ok('GET', '/api/sessions/summary?project=other')).sessions, []);
});

/* ---- locks ---- */

const take = (h, sessionId, more = {}) =>
  h.post('/api/locks', { resource: 'r', sessionId, ...more });

test('an exclusive lock has one holder, a shared one many, and never both', async (t) => {
  const h = await house(t);
  for (const id of ['a', 'b', 'c']) await h.session(id);
  const free = (sessionId) => h.ok('DELETE', '/api/locks', { resource: 'r', sessionId });
  assert.equal((await take(h, 'a')).json.lock.mode, 'exclusive');
  for (const mode of ['exclusive', 'shared'])
    assert.equal((await take(h, 'b', { mode })).json.error, 'LOCK_HELD');
  assert.equal((await free('a')).released.resource, 'r');
  assert.equal((await take(h, 'a', { mode: 'shared' })).status, 200);
  assert.equal((await take(h, 'b', { mode: 'shared' })).status, 200);
  assert.equal((await take(h, 'c')).json.error, 'LOCK_HELD');
  assert.equal((await h.ok('GET', '/api/locks')).locks.length, 2);
});

test('the holder takes it again under the same token, and renews it', async (t) => {
  const h = await house(t);
  await h.session('a');
  const { token } = (await take(h, 'a')).json.lock;
  const again = (await take(h, 'a')).json.lock;
  assert.deepEqual([again.token, again.extended], [token, true]);
  const { lock } = await h.ok(
    'POST', '/api/locks/heartbeat', { resource: 'r', sessionId: 'a', token, extendMs: 120_000 });
  assert.ok(lock.remainingMs > 60_000);
});

test('a lock that is not renewed is free when its time is over', async (t) => {
  const h = await house(t);
  await h.session('a');
  await h.session('b');
  await take(h, 'a', { ttlMs: 1000 });
  const { status, json } = await take(h, 'b', { waitMs: 60_000 });
  assert.deepEqual([status, json.lock.sessionId], [200, 'b']);
});

test('a lock is released by query as well as by body; its name may be any text', async (t) => {
  const h = await house(t);
  await h.session('a');
  for (const resource
         of ['/srv/data/x.db', 'ü %2F ?&=#', "'; --", ' '.repeat(3), 'x'.repeat(1024)]) {
    assert.equal((await take(h, 'a', { resource })).json.lock.resource, resource);
    const query = new URLSearchParams({ resource, sessionId: 'a' });
    assert.equal(
      (await h.ok('GET', `/api/locks?${new URLSearchParams({ resource })}`)).locks.length, 1);
    assert.equal((await h.ok('DELETE', `/api/locks?${query}`)).released.resource, resource);
  }
  for (const [field, value] of [['resource', ''], ['resource', 'x'.repeat(1025)],
         ['mode', 'both'], ['ttlMs', 0], ['waitMs', 600_001], ['sessionId', 'a b'],
         ['wait', '30s']])
    assert.equal((await take(h, 'a', { [field]: value })).json.field, field);
});
