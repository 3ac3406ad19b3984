// SPDX-License-Identifier: MIT
// Tasks over the wire: create one or many, list, change, steer.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';

const ids = (answer) => answer.tasks.map(({ id }) => id);
const many = (count, make = (i) => ({ title: `t${i}` })) =>
  Array.from({ length: count }, (_, i) => make(i));

function assertInvalid(answer, field) {
  assert.deepEqual([answer.status, answer.json.error, answer.json.field],
    [400, 'INVALID_REQUEST', field], answer.text);
}

test('a task with every field comes back with every field', async (t) => {
  const h = await house(t);
  await h.task({ id: 'before' });
  const given = {
    id: 'all',
    project: 'p',
    title: 'T',
    description: 'long',
    type: 'kind',
    phase: 'ph',
    priority: 77,
    maxAttempts: 5,
    tags: ['a', 'b'],
    dependsOn: ['before'],
    params: { x: [1, 2.5, null, true] },
    metadata: ['m'],
    runAfter: '2100-01-01T00:00:00.000Z',
    claimTimeoutMs: 90_000,
    dedupeKey: 'd'
  };
  const { task } = await h.ok('POST', '/api/tasks', given);
  for (const [name, value] of Object.entries(given)) assert.deepEqual(task[name], value, name);
  assert.deepEqual(
    [task.status, task.attempts, task.generation, task.version], ['blocked', 0, 1, 1]);
  assert.deepEqual((await h.ok('GET', '/api/tasks/all')).task, task);
});

test('priorities in words, minutes for milliseconds, statuses in any case', async (t) => {
  const h = await house(t);
  for (const [word, value] of [
         ['critical', 95], ['HIGH', 75], ['medium', 50], ['low', 25], [0, 0], [100, 100]]) {
    assert.equal(
      (await h.ok('POST', '/api/tasks', { title: 'x', priority: word })).task.priority, value);
  }
  await h.ok('POST', '/api/agents', { id: 'a' });
  const { task } =
    await h.ok('POST', '/api/tasks', { title: 'x', claimTimeoutMinutes: 3, assignee: 'a' });
  assert.deepEqual([task.claimTimeoutMs, task.status], [180_000, 'assigned']);
  assert.equal((await h.ok('GET', '/api/tasks?status=OPEN')).tasks.length, 6);
  assert.equal((await h.ok('GET', '/api/tasks?status=pending')).tasks.length, 7);
  assert.equal((await h.ok('GET', '/api/tasks?status=claimed,blocked')).tasks.length, 0);
});

test('a field of the wrong kind or out of bounds is refused by name', async (t) => {
  const h = await house(t);
  const bad = {
    title: ['', null, 7, 'x'.repeat(1025)],
    priority: [-1, 101, 'urgent', 1.5, []],
    tags: ['a', [7], many(33, String)],
    id: ['', 'a b', 'x'.repeat(129), 7, 'claim', 'in-flight'],
    maxAttempts: [-1, 1.5, '3', 1_000_001],
    dependsOn: ['a', [7], ['a b'], many(257, String)],
    runAfter: ['soon', -1, '2025-13-01T00:00:00Z'],
    claimTimeoutMs: [0, -1, 'x'],
    project: [7, 'x'.repeat(129)],
    type: [{}],
    description: ['x'.repeat(65_537)],
    dedupeKey: ['x'.repeat(257)],
    params: [`${'x'.repeat(262_144)}`],
    offeredTo: ['a b']
  };
  for (const [field, values] of Object.entries(bad)) {
    for (const value of values)
      assertInvalid(await h.post('/api/tasks', { title: 'x', [field]: value }), field);
  }
  assert.equal((await h.ok('GET', '/api/tasks')).tasks.length, 0);
});

test('an array makes all its tasks, in order, and they may depend on one another', async (t) => {
  const h = await house(t);
  const { tasks } = await h.ok('POST', '/api/tasks',
    [{ id: 'b', title: 'b', dependsOn: ['a'] }, { id: 'a', title: 'a' }, { title: 'c' }]);
  assert.deepEqual(
    tasks.map(({ id, status }) => [id, status]), [['b', 'blocked'], ['a', 'open'], ['1', 'open']]);
});

test('an array makes all or none, whatever is wrong with one of them', async (t) => {
  const h = await house(t);
  await h.task({ id: 'there' });
  const cases = [
    [{ id: 'there', title: 'x' }, 409, 'TASK_EXISTS'], [{ title: '' }, 400, 'INVALID_REQUEST'],
    [{ title: 'x', colour: 1 }, 400, 'INVALID_REQUEST'],
    [{ title: 'x', dependsOn: ['nosuch'] }, 404, 'TASK_NOT_FOUND'],
    [{ id: 't0', title: 'twice' }, 409, 'TASK_EXISTS'],
    [{ id: 'me', title: 'x', dependsOn: ['me'] }, 400, 'DEPENDENCY_CYCLE'],
    [7, 400, 'INVALID_REQUEST'], [null, 400, 'INVALID_REQUEST'], [[], 400, 'INVALID_REQUEST']
  ];
  for (const [wrong, status, error] of cases) {
    const list = [...many(5, (i) => ({ id: `t${i}`, title: 'x' })), wrong];
    const answer = await h.post('/api/tasks', list);
    assert.deepEqual([answer.status, answer.json.error], [status, error], answer.text);
    assert.deepEqual(ids(await h.ok('GET', '/api/tasks')), ['there']);
  }
  const answer = await h.post('/api/tasks', [{ title: 'x' }, { title: 'x', colour: 'red' }]);
  assertInvalid(answer, 'tasks[1].colour');
});

test('an array is 1 to 1000 tasks', async (t) => {
  const h = await house(t);
  assert.equal((await h.ok('POST', '/api/tasks', many(1000))).tasks.length, 1000);
  for (const count of [0, 1001]) assertInvalid(await h.post('/api/tasks', many(count)), 'body');
  assert.equal((await h.ok('GET', '/api/tasks?limit=1000')).nextCursor, undefined);
});

test('the same dedupe key gives the unfinished task that has it, with 200', async (t) => {
  const h = await house(t);
  const make = () => h.post('/api/tasks', { title: 'x', dedupeKey: 'k' });
  const first = await make();
  const second = await make();
  assert.deepEqual([first.status, second.status, second.json.task.deduplicated], [201, 200, true]);
  assert.equal(second.json.task.id, first.json.task.id);
  await h.ok('POST', `/api/tasks/${first.json.task.id}/cancel`, {});
  assert.equal((await make()).status, 201);
});

test('a list goes on page by page until nothing is left, each task once', async (t) => {
  const h = await house(t);
  await h.ok('POST', '/api/tasks', many(25));
  const seen = [];
  let cursor = '';
  do {
    const page = await h.ok('GET', `/api/tasks?limit=10${cursor}`);
    seen.push(...ids(page));
    cursor = page.nextCursor && `&cursor=${encodeURIComponent(page.nextCursor)}`;
  } while (cursor);
  assert.deepEqual(seen, many(25, (i) => String(i + 1)));
  for (const query
         of ['limit=0', 'limit=1001', 'limit=ten', 'cursor=x', 'cursor=', 'status=nosuch',
           'limit=1&limit=2', 'type=', 'assignee=a%20b', 'limit=%31%', 'type=%ff', 'type=%00']) {
    const answer = await h.get(`/api/tasks?${query}`);
    assert.deepEqual([answer.status, answer.json.error], [400, 'INVALID_REQUEST'], query);
  }
});

test('each filter leaves exactly what it names', async (t) => {
  const h = await house(t);
  await h.session('s');
  const one = { id: 'one', project: 'p', type: 'y', phase: 'h', tags: ['g', 'more'] };
  await h.task(one);
  await h.task({ id: 'two', project: 'q', type: "y' OR '1'='1", tags: ['g%'] });
  await h.ok('POST', '/api/agents', { id: 'ann' });
  await h.task({ id: 'three', assignee: 'ann' });
  await h.ok('POST', '/api/tasks/one/claim', { sessionId: 's' });
  for (const query
         of ['project=p', 'type=y', 'phase=h', 'tag=g', 'status=in_progress', 'sessionId=s'])
    assert.deepEqual(ids(await h.ok('GET', `/api/tasks?${query}`)), ['one'], query);
  for (const [query, found] of [['assignee=ann', ['three']],
         ['status=open,assigned', ['two', 'three']], ['tag=g%25', ['two']],
         [`type=${encodeURIComponent("y' OR '1'='1")}`, ['two']], ['type=%25', []],
         ['project=P', []]])
    assert.deepEqual(ids(await h.ok('GET', `/api/tasks?${query}`)), found, query);
});

test('a change replaces what it names, null empties, and the version guards it', async (t) => {
  const h = await house(t);
  await h.task({ id: 't', description: 'd', tags: ['a'], priority: 90, params: { a: 1 } });
  const { task } = await h.ok('PATCH', '/api/tasks/t',
    { version: 1, title: 'new', description: null, tags: ['b'], priority: null });
  assert.deepEqual(
    [task.title, task.description, task.tags, task.priority, task.version, task.params],
    ['new', undefined, ['b'], 50, 2, { a: 1 }]);
  const stale = await h.request('PATCH', '/api/tasks/t', { body: { version: 1, title: 'other' } });
  assert.deepEqual([stale.status, stale.json.error], [409, 'VERSION_CONFLICT']);
  for (const [field, value] of [
         ['title', ''], ['title', null], ['priority', 101], ['status', 'completed'], ['id', 'x']])
    assertInvalid(await h.request('PATCH', '/api/tasks/t', { body: { [field]: value } }), field);
  assert.deepEqual((await h.ok('GET', '/api/tasks/t')).task, task);
});

test('the moves of people lead where they say', async (t) => {
  const h = await house(t);
  await h.task({ id: 't' });
  for (const id of ['a', 'b']) await h.ok('POST', '/api/agents', { id });
  const steps = [
    ['block', { reason: 'r' }, 'blocked'], ['unblock', {}, 'open'],
    ['offer', { agentId: 'a' }, 'offered'], ['reject', { agentId: 'a', reason: 'busy' }, 'open'],
    ['offer', { agentId: 'a' }, 'offered'], ['accept', { agentId: 'a' }, 'assigned'],
    ['cancel', { reason: 'no' }, 'cancelled'], ['cancel', {}, 'cancelled'], ['reopen', {}, 'open'],
    ['assign', { agentId: 'b' }, 'assigned']
  ];
  for (const [move, body, status] of steps) {
    const { task } = await h.ok('POST', `/api/tasks/t/${move}`, body);
    assert.equal(task.status, status, move);
  }
  const { events } = await h.ok('GET', '/api/tasks/t/history');
  assert.deepEqual(events.map(({ type }) => type), [
    'created', 'blocked', 'unblocked', 'offered', 'rejected', 'offered', 'accepted', 'cancelled',
    'reopened', 'assigned'
  ].map((word) => `task:${word}`));
});

test('a dependency that is completed opens what waits for it', async (t) => {
  const h = await house(t);
  await h.session('s');
  await h.task({ id: 'a' });
  await h.task({ id: 'b', dependsOn: ['a'] });
  assert.deepEqual((await h.ok('GET', '/api/tasks/b')).task.waitingOn, ['a']);
  await h.ok('POST', '/api/tasks/a/claim', { sessionId: 's' });
  await h.ok('POST', '/api/tasks/a/complete', { sessionId: 's' });
  assert.equal((await h.ok('GET', '/api/tasks/b')).task.status, 'open');
});
