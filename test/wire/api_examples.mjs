// SPDX-License-Identifier: MIT
// The printed examples of the two protocols that workers speak: each request works as printed, and
// each answer has every member of the printed one, by name, place and kind; more are allowed.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';
import { differences } from './lib/shape.mjs';
import { stream } from './lib/stream.mjs';

const TASK = 'hierarchy-phase4-metrics';
const AT = '2025-12-28T12:00:00Z';

function assertLike(example, answer, names = []) {
  assert.deepEqual(differences(example, answer.json, names), [], answer.text);
}

/** The task and the two sessions of the examples. */
async function scene(t) {
  const h = await house(t);
  await h.session('session-abc-123');
  await h.session('session-xyz-789');
  await h.task({
    id: TASK,
    title: 'Phase 4: Delegation Metrics',
    phase: 'implementation',
    priority: 'medium'
  });
  return h;
}

const claim = (h, sessionId = 'session-abc-123', task = TASK) =>
  h.post(`/api/tasks/${task}/claim`, { sessionId, ttlMs: 1800000, agentType: 'autonomous' });

test('claim a task', async (t) => {
  const h = await scene(t);
  const answer = await claim(h);
  assert.equal(answer.status, 200);
  assertLike({ success: true,
    claim: { taskId: TASK, sessionId: 'session-abc-123', claimedAt: AT, expiresAt: AT } }, answer);
  const { taskId, sessionId, claimedAt, expiresAt } = answer.json.claim;
  assert.deepEqual([taskId, sessionId], [TASK, 'session-abc-123']);
  assert.equal(Date.parse(expiresAt) - Date.parse(claimedAt), 1800000);
});

test('claim what another has', async (t) => {
  const h = await scene(t);
  await claim(h, 'session-xyz-789');
  const answer = await claim(h);
  assert.equal(answer.status, 409);
  assertLike({ success: false, error: 'TASK_ALREADY_CLAIMED',
    claim: { sessionId: 'session-xyz-789', claimedAt: AT, remainingMs: 900000 } }, answer);
  assert.equal(answer.json.error, 'TASK_ALREADY_CLAIMED');
  assert.equal(answer.json.claim.sessionId, 'session-xyz-789');
});

test('release it, and that completes it', async (t) => {
  const h = await scene(t);
  await claim(h);
  const answer = await h.post(
    `/api/tasks/${TASK}/release`, { sessionId: 'session-abc-123', reason: 'completed' });
  assert.equal(answer.status, 200);
  assertLike(
    { success: true, released: { taskId: TASK, reason: 'completed', claimDuration: 1800000 } },
    answer);
  assert.equal((await h.ok('GET', `/api/tasks/${TASK}`)).task.status, 'completed');
});

test('heartbeat a claim', async (t) => {
  const h = await scene(t);
  await claim(h);
  const body = { sessionId: 'session-abc-123', extendMs: 1800000 };
  for (const heartbeatCount of [1, 2, 3]) {
    const answer = await h.post(`/api/tasks/${TASK}/claim/heartbeat`, body);
    assertLike({ success: true, claim: { expiresAt: AT, heartbeatCount: 3 } }, answer);
    assert.equal(answer.json.claim.heartbeatCount, heartbeatCount);
  }
});

test('what is in flight', async (t) => {
  const h = await scene(t);
  await claim(h);
  for (const id of ['two', 'three']) await h.task({ id, phase: 'p' });
  await claim(h, 'session-abc-123', 'two');
  await claim(h, 'session-xyz-789', 'three');
  const task = {
    title: 'Phase 4: Delegation Metrics',
    phase: 'implementation',
    priority: 'medium'
  };
  const example = {
    inFlight: [{
      taskId: TASK,
      task,
      claim: {
        sessionId: 'session-abc-123',
        claimedAt: AT,
        expiresAt: AT,
        agentType: 'autonomous',
        healthStatus: 'healthy'
      }
    }],
    summary: { total: 3, bySession: { 'session-abc-123': 2, 'session-xyz-789': 1 } }
  };
  const answer = await h.get('/api/tasks/in-flight');
  assertLike(example, answer, ['summary.bySession']);
  assert.deepEqual(answer.json.summary, example.summary);
  const { title, phase, priority } = answer.json.inFlight[0].task;
  assert.deepEqual({ title, phase, priority }, task);
  const one =
    await h.ok('GET', '/api/tasks/in-flight?sessionId=session-xyz-789&includeExpired=true');
  assert.deepEqual(one.inFlight.map(({ taskId }) => taskId), ['three']);
});

test('the current task of a session, and the session', async (t) => {
  const h = await scene(t);
  await claim(h);
  assertLike({
    sessionId: 'session-abc-123',
    currentTask: {
      taskId: TASK,
      title: 'Phase 4: Delegation Metrics',
      claim: { claimedAt: AT, remainingMs: 240000 }
    }
  },
    await h.get('/api/sessions/session-abc-123/current-task'));
  assert.equal((await h.ok('GET', '/api/sessions/session-xyz-789/current-task')).currentTask, null);
  const before = await h.get('/api/sessions/session-abc-123');
  assertLike({ session: { currentTaskId: TASK, currentTaskClaimedAt: AT } }, before);
  await h.ok('POST', `/api/tasks/${TASK}/complete`, { sessionId: 'session-abc-123' });
  assertLike({
    session: {
      claimHistory: [{
        taskId: TASK,
        claimedAt: AT,
        releasedAt: AT,
        releaseReason: 'completed',
        duration: 6300000
      }]
    }
  },
    await h.get('/api/sessions/session-abc-123'));
});

test('the claim as part of the task', async (t) => {
  const h = await scene(t);
  await claim(h);
  assertLike({
    task: {
      id: TASK,
      title: 'Phase 4: Delegation Metrics',
      status: 'in_progress',
      claim: {
        sessionId: 'session-abc-123',
        claimedAt: AT,
        expiresAt: AT,
        lastHeartbeat: AT,
        agentType: 'autonomous',
      }
    }
  },
    await h.get(`/api/tasks/${TASK}`));
});

test('cleanup and statistics', async (t) => {
  const h = await scene(t);
  await claim(h);
  assertLike({ success: true, cleaned: { count: 0 } }, await h.post('/api/tasks/claims/cleanup'));
  const answer = await h.get('/api/tasks/claims/stats');
  assertLike({ success: true, stats: { total: 1, active: 1, expiring: 0, stale: 0,
    byAgentType: { autonomous: 1 }, bySession: { 'session-abc-123': 1 } } }, answer,
  ['stats.byAgentType', 'stats.bySession']);
  assert.deepEqual(answer.json.stats.bySession, { 'session-abc-123': 1 });
});

test('a claim and a release as live events', async (t) => {
  const h = await scene(t);
  const s = await stream(t, h, { query: 'types=task:claimed,task:released' });
  await claim(h);
  await h.ok(
    'POST', `/api/tasks/${TASK}/release`, { sessionId: 'session-abc-123', reason: 'manual' });
  await s.reaches(5);
  const [claimed, released] =
    s.events.map(({ type, data }) => ({ json: { type, data: { ...data, ...data.data } } }));
  assertLike({ type: 'task:claimed', data: { taskId: '', sessionId: '' } }, claimed);
  assertLike({ type: 'task:released', data: { taskId: '', reason: 'manual' } }, released);
  assert.deepEqual([claimed.json.type, released.json.type], ['task:claimed', 'task:released']);
});

/* ---- the pull protocol ---- */

const PULL = {
  worker_id: 'worker-youtube-01',
  task_types: ['youtube_video_scrape', 'youtube_search'],
  max_attempts_remaining: 1,
  sort_by: 'priority',
  sort_order: 'desc'
};

test('pull a task: a number as its id, its params as they were given', async (t) => {
  const h = await house(t);
  const params = { video_id: 'dQw4w9WgXcQ', quality: 'hd' };
  await h.task({ type: 'youtube_video_scrape', params, priority: 5 });
  const { status, json, text } = await h.post('/api/tasks/claim', PULL);
  assert.equal(status, 200);
  assertLike({
    success: true,
    task: {
      id: 123,
      task_type: '',
      status: 'claimed',
      params,
      priority: 5,
      attempts: 0,
      max_attempts: 3,
      worker_id: '',
      claimed_at: AT,
      created_at: AT
    },
    message: ''
  },
    { json, text });
  const { id, task_type: type, priority, max_attempts: most, worker_id: worker } = json.task;
  assert.deepEqual(
    [id, type, priority, most, worker], [1, 'youtube_video_scrape', 5, 3, 'worker-youtube-01']);
  assert.deepEqual([json.task.status, json.task.params, json.message],
    ['claimed', params, 'Task claimed successfully']);
});

test('pull when there is nothing: the filters come back', async (t) => {
  const h = await house(t);
  const answer = await h.post('/api/tasks/claim', {
    worker_id: 'worker-youtube-01',
    task_types: ['youtube_video_scrape'],
    max_attempts_remaining: 1
  });
  assert.equal(answer.status, 404);
  assert.equal(answer.json.success, false);
  assert.equal(answer.json.message, 'No pending tasks available');
  assert.deepEqual(
    answer.json.filters, { task_types: ['youtube_video_scrape'], max_attempts_remaining: 1 });
});

test('pull without a worker_id, or with one that cannot be', async (t) => {
  const h = await house(t);
  const missing = await h.post('/api/tasks/claim', { task_types: ['a'] });
  assert.deepEqual(
    [missing.status, missing.json.message], [400, 'Missing required field: worker_id']);
  for (const id of ['a b', '', 'a/b', 'ü', '../x', "'; DROP TABLE task; --", 7, null, ['w'], {}]) {
    const answer = await h.post('/api/tasks/claim', { worker_id: id });
    assert.deepEqual([answer.status, answer.json.error, answer.json.field],
      [400, 'INVALID_REQUEST', 'worker_id']);
  }
});

test('what is pulled follows sort_by and sort_order', async (t) => {
  const h = await house(t);
  for (const [id, priority] of [['first', 10], ['second', 90], ['third', 50]])
    await h.task({ id, priority });
  const pull = async (more) => {
    const { task } = await h.ok('POST', '/api/tasks/claim', { worker_id: 'w', ...more });
    await h.ok('POST', `/api/tasks/${task.id}/release`, { sessionId: 'w' });
    return task.id;
  };
  assert.equal(await pull({}), 'second');
  assert.equal(await pull({ sort_by: 'priority', sort_order: 'desc' }), 'second');
  assert.equal(await pull({ sort_by: 'priority', sort_order: 'asc' }), 'first');
  assert.equal(await pull({ sort_by: 'created_at', sort_order: 'asc' }), 'first');
  assert.equal(await pull({ sort_by: 'created_at', sort_order: 'desc' }), 'third');
  assert.ok(['first', 'second', 'third'].includes(await pull({ sort_by: 'random' })));
});

test('ten workers pull from ten tasks, then from five: each gets its own or none', async (t) => {
  const h = await house(t);
  for (const [tasks, granted] of [[10, 10], [5, 5]]) {
    await h.ok('POST', '/api/tasks', Array.from({ length: tasks }, () => ({ title: 'x' })));
    const answers = await Promise.all(Array.from({ length: 10 }, (_, i) =>
      h.post('/api/tasks/claim', { worker_id: `worker-${i}` })));
    const ids = answers.filter(({ status }) => status === 200).map(({ json }) => json.task.id);
    assert.equal(new Set(ids).size, granted);
    assert.equal(answers.filter(({ status }) => status === 404).length, 10 - granted);
  }
});

test('max_attempts_remaining passes over what has too few attempts left', async (t) => {
  const h = await house(t);
  await h.task({ id: 'one', maxAttempts: 2 });
  const pull = (more) => h.post('/api/tasks/claim', { worker_id: 'w', ...more });
  assert.equal((await pull({ max_attempts_remaining: 2 })).status, 404); // 0 < 2 - 2 is false
  assert.equal((await pull({ max_attempts_remaining: 1 })).status, 200);
});
