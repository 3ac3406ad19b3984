// SPDX-License-Identifier: MIT
// Text that means something elsewhere (to a shell, to SQL, to a browser, to printf ...) is just
// text here: it comes back as it was given, byte by byte, from every field and from the journal.
import assert from 'node:assert/strict';
import test from 'node:test';

import { house } from './lib/daemon.mjs';
import { stream } from './lib/stream.mjs';

const NASTY = [
  // SQL
  "'", "''", '"', "';", "' OR '1'='1", "'; DROP TABLE task; --", "\"; DELETE FROM claim; --",
  "') UNION SELECT name FROM sqlite_master --", '1; ATTACH DATABASE "/tmp/x" AS x', "x'--", '\\',
  "\\'", '%', '_', '%%%_', '?1', '$1', ':name', '@x', '`x`', '[x]', '/* x */', '-- x',
  // markup
  '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '"><svg/onload=alert(1)>',
  '&lt;b&gt;', '&amp;', ']]>', '<!--', '{{7*7}}', '${7*7}', 'javascript:alert(1)', '#{7*7}',
  '<%= 7*7 %>',
  // shell
  '$(reboot)', '`reboot`', '; reboot', '| cat /etc/passwd', '&& true', '> /tmp/x', '~root', '-rf',
  '--help', '!!', '*', '$HOME', '$IFS', "'$(x)'",
  // lines, headers and event streams
  'a\r\nSet-Cookie: x=1', 'a\r\n\r\nHTTP/1.1 200 OK', '\n', '\r', 'a\nb',
  'a\n\nid: 99\nevent: resync\ndata: {}\n\n', ': comment', 'data: x', '\t\t',
  '\u0001\u0002\u001b[31mred\u001b[0m\u0007', '\u007f\u0080\u009f', '\b\f\v',
  // formats, paths and numbers
  '%s%n%x%p', '%d', '%00', '%0d%0a', '\\u0000', '\\x00', '../../../etc/passwd', '/etc/passwd',
  'C:\\Windows', '//x', 'file:///x', '.', '..', 'null', 'true', '0', '-1', '1e400', 'NaN', '[]',
  '{}', '{"a":1}', '"quoted"', '__proto__', 'constructor',
  // Unicode
  'ü', 'u\u0308', 'ß', 'İi', '日本語', '😀', '👩‍👩‍👧‍👦', '\u202eevil', '\u2066x\u2069', '\u200b',
  '\u2028', '\u2029', '\ufeff', '\ufffd', '\ufffe', '\uffff', '\u{10ffff}', '\u0300\u0301',
  '\u00a0', ' lead and trail ', '   ', 'Ａ', '\u0085', 'x'.repeat(128), 'ü'.repeat(64),
  '😀'.repeat(32), '"'.repeat(128), '\u0001'.repeat(128),
];

const q = encodeURIComponent;

/** Asserts that each of these members is the text. */
function assertAll(text, object, members) {
  for (const name of members)
    assert.equal(object[name], text, `${name}: ${JSON.stringify(object)}`);
}

/** A task and a session with the text in every field; the task is claimed and given back. */
async function work(h, text, i) {
  const pair = { [text]: text };
  const words = { project: text, type: text, phase: text };
  const { task } = await h.ok('POST', '/api/tasks', {
    id: `t${i}`,
    title: text,
    description: text,
    ...words,
    tags: [text],
    dedupeKey: text,
    params: pair,
    metadata: [text]
  });
  assertAll(text, task, ['title', 'description', 'project', 'type', 'phase', 'dedupeKey']);
  assert.deepEqual([task.tags, task.params, task.metadata], [[text], pair, [text]]);
  const { session } = await h.ok('POST', '/api/sessions',
    { id: `s${i}`, project: text, agentType: text, host: text, metadata: pair });
  assertAll(text, session, ['project', 'agentType', 'host']);
  assert.deepEqual(session.metadata, pair);
  const S = { sessionId: `s${i}` };
  const { claim } =
    await h.ok('POST', `/api/tasks/t${i}/claim`, { ...S, agentType: text, metadata: [pair] });
  assert.deepEqual([claim.agentType, claim.metadata], [text, [pair]]);
  const { claim: went } =
    await h.ok('POST', `/api/tasks/t${i}/progress`, { ...S, message: text, checkpoint: pair });
  assert.deepEqual([went.progress.message, went.checkpoint], [text, pair]);
  const { inFlight: [flight] } = await h.ok('GET', `/api/tasks/in-flight?project=${q(text)}`);
  assertAll(text, flight.task, ['title', 'phase', 'type']);
  const { released } = await h.ok('POST', `/api/tasks/t${i}/release`, { ...S, reason: `${text}` });
  assert.equal(released.reason, text);
  const { lock } = await h.ok('POST', '/api/locks', { resource: text, ...S });
  assert.equal(lock.resource, text);
  assert.equal((await h.ok('GET', `/api/locks?resource=${q(text)}`)).locks.length, 1);
}

/** The reasons of moves, and the words of reports. */
async function steer(h, text, i) {
  const move = async (verb, body) => (await h.ok('POST', `/api/tasks/t${i}/${verb}`, body)).task;
  assert.equal((await move('block', { reason: text })).blockReason, text);
  await move('unblock', {});
  await h.ok('POST', '/api/agents', { id: 'a' });
  await move('offer', { agentId: 'a' });
  assert.equal((await move('reject', { agentId: 'a', reason: text })).rejectionReason, text);
  await move('cancel', { reason: text });
  await move('reopen', { reason: text });
  const filters = { task_types: [text], project: text, tags: [text] };
  const { task } = await h.ok('POST', '/api/tasks/claim', { worker_id: `w${i}`, ...filters });
  assert.deepEqual([task.id, task.title, task.description, task.task_type, task.project],
    [`t${i}`, text, text, text, text]);
  const empty = await h.post('/api/tasks/claim', { worker_id: `w${i}`, ...filters });
  assert.deepEqual([empty.status, empty.json.filters], [404, filters]);
  const failed = await h.ok('POST', `/api/tasks/t${i}/fail`,
    { sessionId: `w${i}`, error: text, result: [text], permanent: true });
  assert.deepEqual([failed.task.error, failed.task.result], [text, [text]]);
  await move('reopen', {});
  await h.ok('POST', `/api/tasks/t${i}/claim`, { sessionId: `w${i}` });
  await h.ok('POST', `/api/tasks/t${i}/complete`, { sessionId: `w${i}`, result: { [text]: text } });
}

/** Everything that is on record of the task, as the journal and the objects have it. */
async function look(h, text, i) {
  for (const filter of ['project', 'type', 'phase', 'tag'])
    assert.deepEqual(
      (await h.ok('GET', `/api/tasks?${filter}=${q(text)}`)).tasks.map(({ id }) => id), [`t${i}`],
      filter);
  const { events } = await h.ok('GET', `/api/events?project=${q(text)}&limit=1000`, undefined,
    { headers: { Accept: 'application/json' } });
  const of = (type) => events.filter((event) => event.type === type).map(({ data }) => data);
  const [created] = of('task:created');
  assertAll(text, created, ['title', 'description', 'type', 'phase', 'dedupeKey']);
  assert.deepEqual(
    [created.tags, created.params, created.metadata], [[text], { [text]: text }, [text]]);
  assert.equal(of('session:registered')[0].agentType, text);
  assert.equal(of('task:progress')[0].message, text);
  for (const type of ['task:released', 'task:blocked', 'task:rejected', 'task:cancelled',
         'task:reopened'])
    assert.equal(of(type)[0].reason, text, type);
  assert.equal(of('task:failed')[0].error, text);
  assert.deepEqual(of('task:completed')[0].result, { [text]: text });
  const { task } = await h.ok('GET', `/api/tasks/t${i}`);
  assertAll(text, task, ['title', 'description', 'project', 'type', 'phase', 'dedupeKey']);
  assert.deepEqual(
    (await h.ok('GET', `/api/tasks/t${i}/history`)).attempts[0].progress.message, text);
}

test('every text field keeps every nasty text, and the journal too', async (t) => {
  const h = await house(t);
  assert.ok(new Set(NASTY).size === NASTY.length && NASTY.length >= 100);
  for (const [i, text] of NASTY.entries()) {
    await work(h, text, i);
    await steer(h, text, i);
  }
  for (const [i, text] of NASTY.entries()) await look(h, text, i);
  assert.equal((await h.ok('GET', '/api/tasks?limit=1000')).tasks.length, NASTY.length);
  assert.equal((await h.ok('GET', '/api/sessions?limit=1000')).sessions.length, 2 * NASTY.length);
  assert.equal((await h.stop()).code, 0);
  const { code, out } = await h.dibs('doctor');
  assert.equal(code, 0, out);
});

test('a live stream carries them as the journal has them', async (t) => {
  const h = await house(t);
  const s = await stream(t, h);
  await h.ok(
    'POST', '/api/tasks', NASTY.map((text) => ({ title: text, type: text, project: text })));
  await s.reaches(NASTY.length);
  assert.deepEqual(s.events.map(({ data }) => data.data.title), NASTY);
  assert.deepEqual(s.numbers, NASTY.map((_, i) => i + 1));
});

test('the CLI shows them to a terminal without a control character', async (t) => {
  const h = await house(t);
  await h.ok('POST', '/api/tasks', NASTY.map((text) => ({ title: text })));
  for (const command of [['task', 'list', '--limit', '1000'], ['events', '--limit', '1000']]) {
    const { code, out } = await h.dibs(...command);
    assert.equal(code, 0);
    assert.doesNotMatch(out.replaceAll('\n', ''), /[\u0000-\u001f\u007f]/, command[0]);
  }
});

test('names of keys are kept as well, and ids take none of it', async (t) => {
  const h = await house(t);
  for (const text of NASTY) {
    const wanted = { name: text, role: 'read', project: text };
    const { key } = await h.ok('POST', '/api/keys', wanted, { socket: true });
    assert.deepEqual([key.name, key.project], [text, text]);
    await h.ok('DELETE', `/api/keys/${key.id}`, undefined, { socket: true });
  }
  for (const text of NASTY.filter((each) => !/^[A-Za-z0-9._:-]{1,128}$/.test(each))) {
    for (const [path, field] of [['/api/tasks', 'id'], ['/api/sessions', 'id'],
           ['/api/sessions', 'agentId'], ['/api/tasks', 'assignee']]) {
      const answer = await h.post(path, { title: 'x', [field]: text }, { socket: true });
      assert.equal(answer.status, 400);
    }
  }
});

test('each field takes as much as it says, in bytes, and not one more', async (t) => {
  const h = await house(t);
  await h.session('s');
  const limits =
    { title: 1024, description: 65_536, type: 128, phase: 128, project: 128, dedupeKey: 256 };
  for (const [field, most] of Object.entries(limits)) {
    for (const unit of ['x', 'ü', '😀']) {
      const full = unit.repeat(most / Buffer.byteLength(unit));
      const { task } = await h.ok('POST', '/api/tasks', { title: 'x', [field]: full });
      assert.equal(task[field], full);
      const over = await h.post('/api/tasks', { title: 'x', [field]: `${full}.` });
      assert.deepEqual([over.status, over.json.field], [400, field]);
    }
  }
  const value = 'x'.repeat(262_142); // and two quotes
  for (const field of ['params', 'metadata']) {
    assert.equal(
      (await h.ok('POST', '/api/tasks', { title: 'x', [field]: value })).task[field], value);
    assert.equal(
      (await h.post('/api/tasks', { title: 'x', [field]: `${value}.` })).json.field, field);
  }
  const { length } = (await h.ok('GET', '/api/tasks')).tasks;
  assert.equal(length, 3 * Object.keys(limits).length + 2);
});
