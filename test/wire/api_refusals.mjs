// SPDX-License-Identifier: MIT
// Every refusal that an operation is described to give is given, with its HTTP status, its word and
// the members that tell what to do about it. Those that any operation may give (a bad request, no
// key, another project ...) are in api_every.mjs and keys.mjs.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house, until } from './lib/daemon.mjs';
import { described } from './lib/visits.mjs';

const COMMON = [
  'INVALID_REQUEST', 'UNAUTHORIZED', 'FORBIDDEN', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE',
  'MISDIRECTED_REQUEST', 'IDEMPOTENCY_KEY_REUSED', 'RATE_LIMITED', 'INTERNAL', 'STORE_CORRUPT',
  'OUT_OF_MEMORY', 'STORE_UNAVAILABLE', 'STORE_BUSY', 'STORE_FULL'
];

const S = { sessionId: 's' };
const A = { agentId: 'a' };
const HOLDERS = { claimHeartbeat: 'claim/heartbeat', progress: 'progress', complete: 'complete',
  fail: 'fail', release: 'release' };
const MOVES = { block: {}, unblock: {}, cancel: {}, offer: A, accept: A, reject: A, assign: A };

const OTHER_READER = { agentId: 'quinn', sessionId: 'quinn-2' };
const READERS = [
  ['channelRead', '/api/channels/ops/read'], ['mentionsClaim', '/api/mentions/claim'],
  ['mentionsRelease', '/api/mentions/release']
];
const ANSWERS = [
  ['inboxRead', 'read', {}], ['inboxRespond', 'respond', { text: 'no' }],
  ['inboxDelegate', 'delegate', { taskId: 'free' }], ['inboxRelease', 'release', {}]
];

/** Given: sessions s, other and (ended) gone. Tasks: held by s; free; lost and late, whose leases
 * of s have ended; waits for free; done with the result 1; offered to b; twin, which has the
 * dedupe key of done. Lock r of s. Channel ops, in which quinn-1 is at the mentions of quinn.
 * Messages: taken by quinn-1, answered, unread. */
async function everything(h) {
  for (const id of ['s', 'other', 'gone']) await h.session(id);
  const task = (id, more) => h.task({ id, ...more });
  const claim = (id, more) => h.ok('POST', `/api/tasks/${id}/claim`, { ...S, ...more });
  for (const id of ['lost', 'late', 'held', 'free', 'mine', 'offered']) await task(id);
  await task('waits', { dependsOn: ['free'] });
  await task('done', { dedupeKey: 'same' });
  for (const id of ['lost', 'late']) await claim(id, { ttlMs: 1000 });
  const { claim: held } = await claim('held');
  await claim('done');
  await h.ok('POST', '/api/tasks/done/complete', { ...S, result: 1 });
  await task('twin', { dedupeKey: 'same' });
  for (const id of ['a', 'b']) await h.ok('POST', '/api/agents', { id });
  await h.ok('POST', '/api/tasks/offered/offer', { agentId: 'b' });
  await h.ok('POST', '/api/locks', { resource: 'r', ...S });
  for (const id of ['quinn-1', 'quinn-2']) await h.session(id, { agentId: 'quinn' });
  await h.ok('POST', '/api/channels', { id: 'ops' });
  await h.ok('POST', '/api/channels/ops/messages', { author: 'x', content: '@quinn' });
  await h.ok('POST', '/api/mentions/claim', { agentId: 'quinn', sessionId: 'quinn-1' });
  await h.ok('POST', '/api/inbox', { id: 'taken', agentId: 'quinn', content: 'c' });
  await h.ok('POST', '/api/inbox/claim', { agentId: 'quinn', sessionId: 'quinn-1' });
  for (const id of ['answered', 'unread']) await h.ok('POST', '/api/inbox', { id, content: 'c' });
  await h.ok('POST', '/api/inbox/answered/respond', { text: 'yes' });
  await h.ok('POST', '/api/tasks/mine/claim', { sessionId: 'gone' });
  await h.ok('DELETE', '/api/sessions/gone');
  await until('the leases have ended',
    async () => (await h.ok('GET', '/api/tasks?status=open'))
                  .tasks.filter(({ id }) => /^la|^lo/.test(id))
                  .length === 2);
  await h.ok('POST', '/api/tasks/late/block', {});
  return held;
}

const held = {
  claim: { sessionId: 's', claimedAt: /Z$/, remainingMs: (ms) => ms > 1.7e6 && ms <= 1.8e6 }
};
const is = (taskStatus) => ({ taskStatus });

/** [operation, method, path, body, status, error, members] */
const refusals = [
  ['taskCreate', 'POST', '/api/tasks', { id: 'held', title: 'x' }, 409, 'TASK_EXISTS'],
  [
    'taskCreate', 'POST', '/api/tasks', { title: 'x', dependsOn: ['nosuch'] }, 404, 'TASK_NOT_FOUND'
  ],
  [
    'taskCreate', 'POST', '/api/tasks',
    [{ id: 'x', title: 'x', dependsOn: ['y'] }, { id: 'y', title: 'y', dependsOn: ['x'] }], 400,
    'DEPENDENCY_CYCLE'
  ],
  ['taskGet', 'GET', '/api/tasks/nosuch', undefined, 404, 'TASK_NOT_FOUND'],
  ['taskHistory', 'GET', '/api/tasks/nosuch/history', undefined, 404, 'TASK_NOT_FOUND'],
  ['taskUpdate', 'PATCH', '/api/tasks/nosuch', { title: 'x' }, 404, 'TASK_NOT_FOUND'],
  ['taskUpdate', 'PATCH', '/api/tasks/held', { version: 999, title: 'x' }, 409, 'VERSION_CONFLICT'],
  ['taskUpdate', 'PATCH', '/api/tasks/free', { dependsOn: ['waits'] }, 400, 'DEPENDENCY_CYCLE'],
  ['claim', 'POST', '/api/tasks/nosuch/claim', S, 404, 'TASK_NOT_FOUND'],
  ['claim', 'POST', '/api/tasks/free/claim', { sessionId: 'nosuch' }, 404, 'SESSION_NOT_FOUND'],
  ['claim', 'POST', '/api/tasks/free/claim', { sessionId: 'gone' }, 404, 'SESSION_NOT_FOUND'],
  [
    'claim', 'POST', '/api/tasks/held/claim', { sessionId: 'other' }, 409, 'TASK_ALREADY_CLAIMED',
    held
  ],
  ['claim', 'POST', '/api/tasks/waits/claim', S, 400, 'TASK_NOT_CLAIMABLE', is('blocked')],
  ['claim', 'POST', '/api/tasks/done/claim', S, 400, 'TASK_NOT_CLAIMABLE', is('completed')],
  ['claim', 'POST', '/api/tasks/offered/claim', S, 400, 'TASK_NOT_CLAIMABLE', is('offered')],
  [
    'claimNext', 'POST', '/api/tasks/claim', { worker_id: 'other', project: 'empty' }, 404,
    'NOTHING_TO_CLAIM', { filters: { project: 'empty' }, message: 'No pending tasks available' }
  ],
  ...Object.entries(HOLDERS).flatMap(
    ([name, path]) => [[name, 'POST', `/api/tasks/nosuch/${path}`, S, 404, 'TASK_NOT_FOUND'],
      [name, 'POST', `/api/tasks/free/${path}`, S, 404, 'TASK_NOT_CLAIMED', is('open')],
      [
        name, 'POST', `/api/tasks/held/${path}`, { sessionId: 'other' }, 403, 'NOT_CLAIM_OWNER',
        held
      ],
      [name, 'POST', `/api/tasks/held/${path}`, { ...S, token: 1 }, 409, 'STALE_TOKEN'],
      [
        name, 'POST', `/api/tasks/${name === 'complete' ? 'late' : 'lost'}/${path}`, S, 410,
        'CLAIM_EXPIRED', is(name === 'complete' ? 'blocked' : 'open')
      ],
]),
  [
    'complete', 'POST', '/api/tasks/done/complete', { ...S, result: 2 }, 409,
    'ALREADY_FINISHED', is('completed')
  ],
  ['fail', 'POST', '/api/tasks/done/fail', S, 409, 'ALREADY_FINISHED', is('completed')],
  [
    'complete', 'POST', '/api/tasks/mine/complete', { sessionId: 'gone', claimNext: {} }, 404,
    'SESSION_NOT_FOUND'
  ],
  ...Object.entries(MOVES).flatMap(
    ([name, body]) => [[name, 'POST', `/api/tasks/nosuch/${name}`, body, 404, 'TASK_NOT_FOUND'],
      [name, 'POST', `/api/tasks/done/${name}`, body, 409, 'ALREADY_FINISHED', is('completed')],
]),
  ['reopen', 'POST', '/api/tasks/nosuch/reopen', {}, 404, 'TASK_NOT_FOUND'],
  ['reopen', 'POST', '/api/tasks/free/reopen', {}, 409, 'ILLEGAL_TRANSITION', is('open')],
  ['reopen', 'POST', '/api/tasks/done/reopen', {}, 409, 'ILLEGAL_TRANSITION'],
  ['block', 'POST', '/api/tasks/offered/block', {}, 409, 'ILLEGAL_TRANSITION', is('offered')],
  ['block', 'POST', '/api/tasks/held/block', { sessionId: 'other' }, 403, 'NOT_CLAIM_OWNER', held],
  ['unblock', 'POST', '/api/tasks/free/unblock', {}, 409, 'ILLEGAL_TRANSITION', is('open')],
  ['agentRegister', 'POST', '/api/agents', { id: 'x', name: 'b' }, 409, 'AGENT_EXISTS'],
  ['agentGet', 'GET', '/api/agents/nosuch', undefined, 404, 'AGENT_NOT_FOUND'],
  ['poll', 'GET', '/api/poll?agentId=nosuch', undefined, 404, 'AGENT_NOT_FOUND'],
  ...['offer', 'assign'].map((verb) => [
    verb, 'POST', `/api/tasks/free/${verb}`, { agentId: 'nosuch' }, 404, 'AGENT_NOT_FOUND'
  ]),
  ['taskCreate', 'POST', '/api/tasks', { title: 'x', assignee: 'nosuch' }, 404, 'AGENT_NOT_FOUND'],
  ['offer', 'POST', '/api/tasks/held/offer', A, 409, 'ILLEGAL_TRANSITION', is('in_progress')],
  ['accept', 'POST', '/api/tasks/free/accept', A, 409, 'ILLEGAL_TRANSITION', is('open')],
  ['accept', 'POST', '/api/tasks/offered/accept', A, 409, 'ILLEGAL_TRANSITION', is('offered')],
  ['reject', 'POST', '/api/tasks/offered/reject', A, 409, 'ILLEGAL_TRANSITION', is('offered')],
  ['assign', 'POST', '/api/tasks/held/assign', A, 409, 'ILLEGAL_TRANSITION', is('in_progress')],
  ...['', '/current-task'].map(
    (path) => [path === '' ? 'sessionGet' : 'sessionCurrentTask', 'GET',
      `/api/sessions/nosuch${path}`, undefined, 404, 'SESSION_NOT_FOUND']),
  ['sessionHeartbeat', 'POST', '/api/sessions/gone/heartbeat', {}, 404, 'SESSION_NOT_FOUND'],
  ['sessionResume', 'POST', '/api/sessions/nosuch/resume', {}, 404, 'SESSION_NOT_FOUND'],
  ['sessionDeregister', 'DELETE', '/api/sessions/nosuch', undefined, 404, 'SESSION_NOT_FOUND'],
  [
    'lockTake', 'POST', '/api/locks', { resource: 'r', sessionId: 'nosuch' }, 404,
    'SESSION_NOT_FOUND'
  ],
  [
    'lockTake', 'POST', '/api/locks', { resource: 'r', sessionId: 'other' }, 409, 'LOCK_HELD',
    { claim: { sessionId: 's', claimedAt: /Z$/, remainingMs: (ms) => ms > 0 && ms <= 60_000 } }
  ],
  ...[['lockHeartbeat', 'POST', '/api/locks/heartbeat'], ['lockRelease', 'DELETE', '/api/locks']]
    .flatMap((row) => [[...row, { resource: 'r', sessionId: 'other' }, 404, 'LOCK_NOT_HELD'],
               [...row, { resource: 'r', ...S, token: 1 }, 409, 'STALE_TOKEN'],
]),
  [
    'channelPost', 'POST', '/api/channels/nosuch/messages', { author: 'x', content: 'c' }, 404,
    'CHANNEL_NOT_FOUND'
  ],
  [
    'channelPost', 'POST', '/api/channels/ops/messages',
    { author: 'x', content: 'c', replyTo: 'nosuch' }, 404, 'MESSAGE_NOT_FOUND'
  ],
  ['channelMessages', 'GET', '/api/channels/nosuch/messages', undefined, 404, 'CHANNEL_NOT_FOUND'],
  ...READERS.flatMap(
    ([name, path]) => [
      [name, 'POST', path, { agentId: 'nosuch', sessionId: 'quinn-1' }, 404, 'AGENT_NOT_FOUND'],
      [name, 'POST', path, { agentId: 'quinn', sessionId: 'nosuch' }, 404, 'SESSION_NOT_FOUND'],
]),
  ['mentionsClaim', 'POST', '/api/mentions/claim', OTHER_READER, 404, 'NOTHING_TO_CLAIM'],
  ['channelRead', 'POST', '/api/channels/nosuch/read', OTHER_READER, 404, 'CHANNEL_NOT_FOUND'],
  [
    'channelRead', 'POST', '/api/channels/ops/read', OTHER_READER, 403, 'NOT_CLAIM_OWNER',
    { claim: { sessionId: 'quinn-1', claimedAt: /Z$/, remainingMs: (ms) => ms > 0 } }
  ],
  [
    'mentionsRelease', 'POST', '/api/mentions/release', { ...OTHER_READER, channelIds: ['nosuch'] },
    404, 'CHANNEL_NOT_FOUND'
  ],
  [
    'mentionsRelease', 'POST', '/api/mentions/release', { ...OTHER_READER, channelIds: ['ops'] },
    403, 'NOT_CLAIM_OWNER'
  ],
  ['inboxAdd', 'POST', '/api/inbox', { agentId: 'nosuch', content: 'c' }, 404, 'AGENT_NOT_FOUND'],
  ['inboxGet', 'GET', '/api/inbox/nosuch', undefined, 404, 'MESSAGE_NOT_FOUND'],
  ...[[{ agentId: 'nosuch', sessionId: 'quinn-1' }, 'AGENT_NOT_FOUND'],
    [{ agentId: 'quinn', sessionId: 'nosuch' }, 'SESSION_NOT_FOUND'],
    [OTHER_READER, 'NOTHING_TO_CLAIM']]
    .map(([body, error]) => ['inboxClaim', 'POST', '/api/inbox/claim', body, 404, error]),
  ...ANSWERS.flatMap(([name, word, body]) => [
    [name, 'POST', `/api/inbox/nosuch/${word}`, body, 404, 'MESSAGE_NOT_FOUND'],
    [
      name, 'POST', `/api/inbox/taken/${word}`, { ...body, sessionId: 'quinn-2' }, 403,
      'NOT_CLAIM_OWNER',
      { claim: { sessionId: 'quinn-1', claimedAt: /Z$/, remainingMs: (ms) => ms > 0 } }
    ],
    [name, 'POST', `/api/inbox/taken/${word}`, body, 403, 'NOT_CLAIM_OWNER'],
    [
      name, 'POST', `/api/inbox/taken/${word}`, { ...body, sessionId: 'quinn-1', token: 1 }, 409,
      'STALE_TOKEN'
    ],
    [name, 'POST', `/api/inbox/answered/${word}`, body, 409, 'ALREADY_ANSWERED'],
  ]),
  ...ANSWERS.slice(0, 3).map(([name, word, body]) => [
    name, 'POST', `/api/inbox/unread/${word}`, { ...body, sessionId: 'nosuch' }, 404,
    'SESSION_NOT_FOUND'
  ]),
  ...[[{ taskId: 'nosuch' }, 404, 'TASK_NOT_FOUND'],
    [{ task: { id: 'held', title: 'T' } }, 409, 'TASK_EXISTS'],
    [{ task: { id: 'x', title: 'T', dependsOn: ['x'] } }, 400, 'DEPENDENCY_CYCLE'],
    [{ task: { title: 'T', assignee: 'nosuch' } }, 404, 'AGENT_NOT_FOUND']]
    .map((row) => ['inboxDelegate', 'POST', '/api/inbox/unread/delegate', ...row]),
  ...[['noticesAck', 'ack'], ['noticesRelease', 'release']].map(([name, word]) => [
    name, 'POST', `/api/notices/${word}`, { sessionId: 'nosuch' }, 404, 'SESSION_NOT_FOUND'
  ]),
  ['keyRevoke', 'DELETE', '/api/keys/knosuch', undefined, 404, 'KEY_NOT_FOUND'],
];

/** Described as what holders and movers may be told in general, but nothing leads there: a block
 * names no token and looks at the lease first, everything unfinished can be cancelled, everything
 * finished reopened, and a release of what is finished is TASK_NOT_CLAIMED. Locks are of no
 * project, so whoever holds none is told that. A session that is not there has nothing to clean. */
const UNREACHED = ['block TASK_NOT_CLAIMED', 'block STALE_TOKEN', 'block CLAIM_EXPIRED',
  'cancel ILLEGAL_TRANSITION', 'reopen ALREADY_FINISHED', 'release ALREADY_FINISHED',
  'claimCleanup SESSION_NOT_FOUND',
  'lockRelease SESSION_NOT_FOUND', 'lockHeartbeat SESSION_NOT_FOUND'];

/** Refused with SESSION_NOT_FOUND to a key that may not see the session's project. */
const hidden = [...Object.entries(HOLDERS), ['block', 'block']];

function assertMembers(expected, actual, what) {
  for (const [name, value] of Object.entries(expected)) {
    if (value instanceof RegExp) assert.match(actual[name], value, what);
    else if (typeof value === 'function')
      assert.ok(value(actual[name]), `${what}: ${actual[name]}`);
    else if (typeof value === 'object') assertMembers(value, actual[name], what);
    else assert.equal(actual[name], value, what);
  }
}

test('each refusal has its status, its word, a sentence, and what else is known', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await everything(h);
  for (const [name, method, path, body, status, error, members = {}] of refusals) {
    const answer = await h.request(method, path, { body });
    const what = `${name} ${path} ${JSON.stringify(body)}: ${answer.text}`;
    assert.deepEqual(
      [answer.status, answer.json.success, answer.json.error], [status, false, error], what);
    assert.match(answer.json.message, /\w+ \w+/);
    assertMembers(members, answer.json, what);
  }
});

test('for a key of one project, a session elsewhere is not there', async (t) => {
  const h = await house(t);
  await h.session('s');
  const key = { name: 'n', role: 'worker', project: 'web' };
  const { apiKey } = await h.ok('POST', '/api/keys', key, { socket: true });
  const headers = { 'X-API-Key': apiKey };
  await until(
    'the key is known', async () => (await h.get('/api/tasks', { headers })).status === 200);
  await h.ok('POST', '/api/tasks', { id: 't', title: 'x' }, { headers });
  for (const [name, path] of hidden) {
    const answer = await h.post(`/api/tasks/t/${path}`, S, { headers });
    assert.deepEqual([answer.status, answer.json.error], [404, 'SESSION_NOT_FOUND'], name);
  }
});

test('a refusal changes nothing but what it notes in the journal', async (t) => {
  const h = await house(t, { config: ['minTTL = 1s'] });
  await everything(h);
  const moves = (key, value) =>
    (key === 'remainingMs' || key === 'lastHeartbeat' ? undefined : value);
  const all = async () => JSON.parse(JSON.stringify(
    [
      (await h.ok('GET', '/api/tasks')).tasks, (await h.ok('GET', '/api/sessions?all')).sessions,
      (await h.ok('GET', '/api/locks')).locks
    ],
    moves));
  const before = await all();
  for (const [, method, path, body] of refusals) await h.request(method, path, { body });
  assert.deepEqual(await all(), before);
});

test('whatever the description says that an operation refuses has a case here', async (t) => {
  const h = await house(t);
  const missing = [];
  for (const { name, responses } of await described(h)) {
    const said = Object.values(responses).flatMap(
      ({ description = '' }) => [...description.matchAll(/`([A-Z_]+)`/g)]);
    for (const [, code] of said) {
      const isHere = refusals.some(([op, , , , , error]) => op === name && error === code)
        || (code === 'SESSION_NOT_FOUND' && hidden.some(([op]) => op === name))
        || COMMON.includes(code) || UNREACHED.includes(`${name} ${code}`);
      if (!isHere) missing.push(`${name} ${code}`);
    }
  }
  assert.deepEqual(missing, []);
});
