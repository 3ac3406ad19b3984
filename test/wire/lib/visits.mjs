// SPDX-License-Identifier: MIT
// One request for every operation, in an order in which each finds what it needs; and what the
// daemon says of itself in /api/openapi.json, against which the list is held.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** [operation, method, path, body, status]; KEY in a path is the id of the key made before. */
export const visits = [
  ['taskCreate', 'POST', '/api/tasks', { id: 't', title: 'T' }, 201],
  ['taskList', 'GET', '/api/tasks', undefined, 200],
  ['taskGet', 'GET', '/api/tasks/t', undefined, 200],
  ['taskUpdate', 'PATCH', '/api/tasks/t', { phase: 'p' }, 200],
  ['sessionRegister', 'POST', '/api/sessions', { id: 's' }, 201],
  ['sessionList', 'GET', '/api/sessions', undefined, 200],
  ['claim', 'POST', '/api/tasks/t/claim', { sessionId: 's' }, 200],
  ['claimHeartbeat', 'POST', '/api/tasks/t/claim/heartbeat', { sessionId: 's' }, 200],
  ['progress', 'POST', '/api/tasks/t/progress', { sessionId: 's', percent: 5 }, 200],
  ['inFlight', 'GET', '/api/tasks/in-flight', undefined, 200],
  ['claimStats', 'GET', '/api/tasks/claims/stats', undefined, 200],
  ['sessionSummary', 'GET', '/api/sessions/summary', undefined, 200],
  ['sessionCurrentTask', 'GET', '/api/sessions/s/current-task', undefined, 200],
  ['sessionHeartbeat', 'POST', '/api/sessions/s/heartbeat', {}, 200],
  ['sessionResume', 'POST', '/api/sessions/s/resume', {}, 200],
  ['release', 'POST', '/api/tasks/t/release', { sessionId: 's' }, 200],
  ['block', 'POST', '/api/tasks/t/block', { reason: 'r' }, 200],
  ['unblock', 'POST', '/api/tasks/t/unblock', {}, 200],
  ['agentRegister', 'POST', '/api/agents', { name: 'a', maxTasks: 2 }, 201],
  ['agentList', 'GET', '/api/agents', undefined, 200],
  ['agentGet', 'GET', '/api/agents/a', undefined, 200],
  ['offer', 'POST', '/api/tasks/t/offer', { agentId: 'a' }, 200],
  ['poll', 'GET', '/api/poll?agentId=a', undefined, 200],
  ['reject', 'POST', '/api/tasks/t/reject', { agentId: 'a' }, 200],
  ['offer', 'POST', '/api/tasks/t/offer', { agentId: 'a' }, 200],
  ['accept', 'POST', '/api/tasks/t/accept', { agentId: 'a' }, 200],
  ['cancel', 'POST', '/api/tasks/t/cancel', {}, 200],
  ['reopen', 'POST', '/api/tasks/t/reopen', {}, 200],
  ['assign', 'POST', '/api/tasks/t/assign', { agentId: 'a' }, 200],
  ['taskCreate', 'POST', '/api/tasks', [{ id: 'u', title: 'U' }, { id: 'v', title: 'V' }], 201],
  ['claimNext', 'POST', '/api/tasks/claim', { worker_id: 'w', count: 2 }, 200],
  ['complete', 'POST', '/api/tasks/u/complete', { sessionId: 'w', result: 1 }, 200],
  ['fail', 'POST', '/api/tasks/v/fail', { sessionId: 'w', error: 'e' }, 200],
  ['taskHistory', 'GET', '/api/tasks/v/history', undefined, 200],
  ['claimCleanup', 'POST', '/api/tasks/claims/cleanup', {}, 200],
  ['agentScores', 'GET', '/api/agents/scores', undefined, 200],
  ['lockTake', 'POST', '/api/locks', { resource: 'r', sessionId: 's' }, 200],
  ['lockList', 'GET', '/api/locks', undefined, 200],
  ['lockHeartbeat', 'POST', '/api/locks/heartbeat', { resource: 'r', sessionId: 's' }, 200],
  ['lockRelease', 'DELETE', '/api/locks', { resource: 'r', sessionId: 's' }, 200],
  ['sessionRegister', 'POST', '/api/sessions', { id: 'quinn-1', agentId: 'quinn' }, 201],
  ['channelCreate', 'POST', '/api/channels', { id: 'ops' }, 201],
  ['channelList', 'GET', '/api/channels', undefined, 200],
  ['channelPost', 'POST', '/api/channels/ops/messages', { author: 'x', content: '@quinn' }, 201],
  ['channelMessages', 'GET', '/api/channels/ops/messages', undefined, 200],
  ['mentionsClaim', 'POST', '/api/mentions/claim', { agentId: 'quinn', sessionId: 'quinn-1' }, 200],
  [
    'mentionsRelease', 'POST', '/api/mentions/release', { agentId: 'quinn', sessionId: 'quinn-1' },
    200
  ],
  ['channelRead', 'POST', '/api/channels/ops/read', { agentId: 'quinn' }, 200],
  ['inboxAdd', 'POST', '/api/inbox', { id: 'm', agentId: 'quinn', content: 'c' }, 201],
  ['inboxList', 'GET', '/api/inbox', undefined, 200],
  ['inboxGet', 'GET', '/api/inbox/m', undefined, 200],
  ['inboxClaim', 'POST', '/api/inbox/claim', { agentId: 'quinn', sessionId: 'quinn-1' }, 200],
  ['inboxRelease', 'POST', '/api/inbox/m/release', { sessionId: 'quinn-1' }, 200],
  ['inboxRead', 'POST', '/api/inbox/m/read', {}, 200],
  ['inboxAdd', 'POST', '/api/inbox', { id: 'n', content: 'c' }, 201],
  ['inboxRespond', 'POST', '/api/inbox/n/respond', { text: 'yes' }, 200],
  ['inboxAdd', 'POST', '/api/inbox', { id: 'o', content: 'c' }, 201],
  ['inboxDelegate', 'POST', '/api/inbox/o/delegate', { taskId: 't' }, 200],
  ['noticesAck', 'POST', '/api/notices/ack', { sessionId: 'quinn-1' }, 200],
  ['noticesRelease', 'POST', '/api/notices/release', { sessionId: 'quinn-1' }, 200],
  ['keyAdd', 'POST', '/api/keys', { name: 'n', role: 'read' }, 201],
  ['keyList', 'GET', '/api/keys', undefined, 200],
  ['keyRevoke', 'DELETE', '/api/keys/KEY', undefined, 200],
  ['events', 'GET', '/api/events', undefined, 200],
  ['sessionGet', 'GET', '/api/sessions/s', undefined, 200],
  ['sessionDeregister', 'DELETE', '/api/sessions/s', undefined, 200],
].map(([name, method, path, body, status]) => ({ name, method, path, body, status }));

/** The names in ops.def, as it stands in the source. */
export function operationNames() {
  const root = process.env.DIBS_SOURCE_ROOT ?? join(import.meta.dirname, '../../..');
  const rows = readFileSync(join(root, 'src/api/ops.def'), 'utf8').matchAll(/^OP\((\w+),/gm);
  return [...rows].map(([, name]) => name);
}

/** Every operation under /api as the daemon describes it: {name, method, path, responses}. */
export async function described(h) {
  const { paths } = await h.ok('GET', '/api/openapi.json');
  const all = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods)
    .filter(([method]) => /^(get|post|put|patch|delete)$/.test(method))
    .map(([method, { operationId, responses }]) =>
      ({ name: operationId, method: method.toUpperCase(), path, responses })));
  return all.filter(({ path }) => path.startsWith('/api/') && path !== '/api/openapi.json');
}

/** Sends all visits in their order, as the owner, and gives each with its answer to `each`.
 * `more(visit)`: headers and the like for its request. */
export async function visitAll(h, each, more = () => ({})) {
  let key = '';
  for (const visit of visits) {
    const path = visit.path.replace('KEY', key);
    const request = { socket: true, body: visit.body, ...more(visit) };
    request.headers = { Accept: 'application/json', ...request.headers };
    const answer = await h.request(visit.method, path, request);
    key = answer.json?.key?.id ?? key;
    await each({ ...visit, path, request }, answer);
  }
}
