// SPDX-License-Identifier: MIT
// dibs inbox add, list, show, claim, read, respond, delegate, release.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place, until } from './lib/dibs.mjs';

const boss = { env: { DIBS_SESSION: 'boss-1', DIBS_AGENT: 'boss' } };

async function office(t) {
  const p = await place(t);
  await p.dibs('agent', 'register', 'boss', '--lead');
  return p;
}

test('add, list and show', async (t) => {
  const p = await office(t);
  assert.equal((await p.dibs('inbox', 'list')).out, 'no messages\n');
  const added = await p.dibs('inbox', 'add', 'is it done?', '--source', 'slack', '--channel', 'C1',
    '--thread', '17.2', '--user', 'U7', '--matched', 'done', '--metadata', '{"a":1}');
  assert.equal(added.out, 'added 1 for whichever lead asks first\n', added.err);
  assert.equal((await p.dibs('inbox', 'add', 'hello', '--agent', 'boss')).out,
    'added 2 for boss\n');
  assert.equal((await p.dibs('inbox', 'add', 'x', '--id', 'mine', '-q')).out, 'mine\n');
  const { out } = await p.dibs('inbox', 'list');
  assert.match(out, /^1 +unread +- +slack +U7 +is it done\? +- +\S+$/m);
  assert.match(out, /^2 +unread +boss +api +- +hello +- +\S+$/m);
  assert.equal((await p.dibs('inbox', 'list', '--source', 'slack', '-q')).out, '1\n');
  assert.equal((await p.dibs('inbox', 'list', '--agent', 'boss', '-q')).out, '2\n');
  const page = await p.json('inbox', 'list', '--limit', '2');
  assert.deepEqual(page.messages.map((m) => m.id), ['1', '2']);
  const rest = await p.dibs('inbox', 'list', '-q', '--cursor', page.nextCursor);
  assert.equal(rest.out, 'mine\n');
  const shown = (await p.dibs('inbox', 'show', '1')).out;
  for (const line of [/^1 {2}unread$/m, /channel +C1$/m, /thread +17\.2$/m, /user +U7$/m,
    /matched +done$/m, /metadata +\{"a":1\}$/m, /message +is it done\?$/m]) {
    assert.match(shown, line);
  }
});

test('claim takes the oldest, up to the count, and says when there is none', async (t) => {
  const p = await office(t);
  for (const text of ['a', 'b', 'c']) await p.dibs('inbox', 'add', text);
  const first = await p.run(['inbox', 'claim', '--count', '2', '-q'], boss);
  assert.equal(first.out, '1\n2\n', first.err);
  const second = await p.run(['inbox', 'claim'], boss);
  assert.match(second.out, /^3 +processing +- +api +- +c +boss-1 /m);
  assert.match(second.err, /yours until .* as boss-1/);
  const none = await p.run(['inbox', 'claim'], boss);
  assert.equal(none.code, 3);
  assert.match(none.err, /no unread message[^]*try: dibs poll/);
  const { messages } = await p.json('inbox', 'list', '--status', 'processing');
  assert.equal(messages.length, 3);
  assert.equal(messages[0].claim.sessionId, 'boss-1');
  assert.equal((await p.json('session', 'show', 'boss-1')).session.agentId, 'boss');
});

test('read, respond, delegate and release end a claim each in its way', async (t) => {
  const p = await office(t);
  for (const text of ['a', 'b', 'c', 'd', 'e']) await p.dibs('inbox', 'add', text);
  await p.dibs('task', 'add', 'there already', '--id', 'old');
  await p.run(['inbox', 'claim'], boss);
  assert.equal((await p.run(['inbox', 'read', '1'], boss)).out, 'marked 1, now read\n');
  assert.equal((await p.run(['inbox', 'respond', '2', 'yes, it is'], boss)).out,
    'answered 2, now responded\n');
  assert.equal((await p.run(['inbox', 'delegate', '3', '--task', 'old'], boss)).out,
    'delegated 3, to task old\n');
  const made = await p.run(['inbox', 'delegate', '4', '--title', 'paint', '--type', 'art',
    '--priority', 'high', '--tag', 'x', '--param', 'n=3', '-q'], boss);
  const { task } = await p.json('task', 'show', made.out.trim());
  assert.deepEqual([task.title, task.type, task.priority, task.tags, task.params],
    ['paint', 'art', 75, ['x'], { n: 3 }]);
  assert.equal((await p.run(['inbox', 'release', '5'], boss)).out, 'released 5, now unread\n');
  assert.match((await p.dibs('inbox', 'show', '2')).out, /response +yes, it is$/m);
  assert.match((await p.dibs('inbox', 'show', '4')).out, new RegExp(`task +${task.id}$`, 'm'));
  assert.equal((await p.run(['inbox', 'claim', '-q'], boss)).out, '5\n');
});

test('what nobody holds can be answered by anybody, what is held only by its holder', async (t) => {
  const p = await office(t);
  await p.dibs('inbox', 'add', 'a');
  await p.dibs('inbox', 'add', 'b');
  assert.equal((await p.dibs('inbox', 'respond', '1', 'hi')).code, 0);
  await p.run(['inbox', 'claim'], boss);
  const held = await p.dibs('inbox', 'respond', '2', 'hi');
  assert.equal(held.code, 5);
  assert.match(held.err, /held by session 'boss-1'[^]*try: dibs inbox show 2/);
  assert.equal((await p.dibs('inbox', 'release', '2')).code, 5);
  const { claim } = (await p.json('inbox', 'show', '2')).message;
  const wrong = await p.run(['inbox', 'read', '2', '--token', String(claim.token + 1)], boss);
  assert.equal(wrong.code, 5);
  assert.equal((await p.run(['inbox', 'read', '2', '--token', String(claim.token)], boss)).code, 0);
});

test('a message whose lease has ended is unread again', async (t) => {
  const p = await office(t);
  await p.dibs('inbox', 'add', 'a');
  await p.run(['inbox', 'claim', '--ttl', '1s', '--min-ttl', '1s'], boss);
  await until('the lease ends', async () => {
    await p.json('cleanup', '--type', 'expired');
    return (await p.json('inbox', 'show', '1')).message.status === 'unread';
  });
  assert.equal((await p.run(['inbox', 'claim', '-q'], boss)).out, '1\n');
});

test('what is not possible says so with its exit code', async (t) => {
  const p = await office(t);
  await p.dibs('agent', 'register', 'ann');
  await p.dibs('inbox', 'add', 'a');
  await p.dibs('inbox', 'add', 'b');
  await p.dibs('inbox', 'respond', '1', 'hi');
  await p.dibs('session', 'register', 'of-ann', '--agent-id', 'ann');
  for (const [args, code, says] of [
    [['inbox', 'add'], 2, /TEXT/],
    [['inbox', 'add', 'x', '--agent', 'nobody'], 6, /nobody/],
    [['inbox', 'list', '--status', 'lost'], 2, /status/],
    [['inbox', 'show', '9'], 6, /no message '9'[^]*try: dibs inbox list/],
    [['inbox', 'show', 'claim'], 6, /no message 'claim'/],
    [['inbox', 'read', '9'], 6, /no message '9'/],
    [['inbox', 'respond', '2'], 2, /TEXT/],
    [['inbox', 'respond', '1', 'other'], 7, /responded/],
    [['inbox', 'delegate', '2'], 2, /--task ID, or --title/],
    [['inbox', 'delegate', '2', '--task', '1', '--title', 'x'], 2, /--task ID, or --title/],
    [['inbox', 'delegate', '2', '--task', '99'], 6, /no task '99'/],
    [['inbox', 'claim'], 2, /--agent/],
    [['inbox', 'claim', '--agent', 'nobody'], 6, /no agent 'nobody'/],
    [['inbox', 'claim', '--agent', 'boss', '--session', 'of-ann'], 2, /ann/],
    [['inbox', 'claim', '--agent', 'boss', '--count', '0'], 2, /--count/]]) {
    const answer = await p.dibs(...args);
    assert.equal(answer.code, code, `${args.join(' ')}: ${answer.err}`);
    assert.match(answer.err, says, args.join(' '));
    const json = await p.run([...args, '--json']);
    assert.equal(json.code, code, args.join(' '));
    assert.equal(JSON.parse(json.out).success, false);
  }
  assert.equal((await p.json('inbox', 'show', '2')).message.status, 'unread');
});
