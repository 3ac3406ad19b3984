// SPDX-License-Identifier: MIT
// dibs channel create, list, post, messages, read; dibs mentions claim, release.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { place } from './lib/dibs.mjs';

const boss = { env: { DIBS_SESSION: 'boss-1', DIBS_AGENT: 'boss' } };

async function room(t) {
  const p = await place(t);
  await p.dibs('agent', 'register', 'boss', '--lead');
  await p.dibs('agent', 'register', 'ann');
  await p.dibs('channel', 'create', 'general');
  return p;
}

test('create makes a channel once', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('channel', 'list')).out, 'no channels\n');
  const made = await p.dibs('channel', 'create', 'general', '--description', 'all and nothing');
  assert.equal(made.out, 'made general\n', made.err);
  assert.equal((await p.dibs('channel', 'create', 'general')).out, 'already there: general\n');
  assert.match((await p.dibs('channel', 'list')).out,
    /^general +default +0 +\S+ +all and nothing$/m);
  assert.equal((await p.dibs('channel', 'list', '-q')).out, 'general\n');
});

test('post says whom it mentions; messages shows all and marks nothing', async (t) => {
  const p = await room(t);
  assert.equal((await p.dibs('channel', 'post', 'general', 'hello @ann', '--as', 'boss')).out,
    'posted 1 as boss, mentions ann\n');
  assert.equal((await p.dibs('channel', 'post', 'general', 'and annex@ann.example')).out,
    'posted 2 as tester\n');
  const reply = await p.run(['channel', 'post', 'general', 'hello', '--reply-to', '1', '-q'],
    { env: { DIBS_AGENT: 'ann' } });
  assert.equal(reply.out, '3\n');
  const { out } = await p.dibs('channel', 'messages', 'general');
  assert.match(out, /^1 +.* boss +- +hello @ann$/m);
  assert.match(out, /^3 +.* ann +1 +hello$/m);
  const page = await p.json('channel', 'messages', 'general', '--limit', '2');
  assert.deepEqual(page.messages.map((m) => m.id), ['1', '2']);
  assert.equal((await p.dibs('channel', 'messages', 'general', '-q', '--cursor',
    page.nextCursor)).out, '3\n');
});

test('mentions are claimed with their count and end when the channel is read', async (t) => {
  const p = await room(t);
  const none = await p.run(['mentions', 'claim'], boss);
  assert.equal(none.code, 3);
  for (const text of ['@boss look', 'nothing', '@boss again']) {
    await p.dibs('channel', 'post', 'general', text, '--as', 'ann');
  }
  const claimed = await p.run(['mentions', 'claim'], boss);
  assert.match(claimed.out, /^general +2 +\d+ +in \S+$/m, claimed.err);
  assert.equal((await p.run(['mentions', 'claim', '--session', 'boss-2'], boss)).code, 3);
  const read = await p.run(['channel', 'read', 'general', '-q'], boss);
  assert.equal(read.out, '1\n2\n3\n', read.err);
  assert.equal((await p.run(['channel', 'read', 'general'], boss)).out, 'nothing new\n');
  assert.equal((await p.run(['mentions', 'claim'], boss)).code, 3);
});

test('released mentions are handed out again, unless they count as read', async (t) => {
  const p = await room(t);
  await p.dibs('channel', 'post', 'general', '@boss look', '--as', 'ann');
  await p.run(['mentions', 'claim'], boss);
  assert.equal((await p.run(['mentions', 'release'], boss)).out, 'released 1\n');
  assert.equal((await p.run(['mentions', 'claim', '-q'], boss)).out, 'general\n');
  await p.dibs('channel', 'post', 'general', '@boss one more', '--as', 'ann');
  assert.equal((await p.run(['mentions', 'release', 'general', '--read'], boss)).out,
    'released 1\n');
  const later = await p.run(['mentions', 'claim', '--json'], boss);
  assert.equal(JSON.parse(later.out).mentionsCount, 1, 'the one that came meanwhile');
});

test('what is not possible says so with its exit code', async (t) => {
  const p = await room(t);
  for (const [args, code, says] of [
    [['channel', 'create'], 2, /CHANNEL/],
    [['channel', 'create', 'no channel'], 2, /id/],
    [['channel', 'post', 'general'], 2, /TEXT/],
    [['channel', 'post', 'nowhere', 'x'], 6, /no channel 'nowhere'[^]*try: dibs channel list/],
    [['channel', 'post', 'general', 'x', '--reply-to', '99'], 6, /no message '99'/],
    [['channel', 'messages', 'nowhere'], 6, /nowhere/],
    [['channel', 'read', 'general'], 2, /--agent/],
    [['channel', 'read', 'nowhere', '--agent', 'ann'], 6, /nowhere/],
    [['channel', 'read', 'general', '--agent', 'nobody', '--session', 'x'], 6, /no agent 'nobody'/],
    [['mentions', 'claim'], 2, /--agent/],
    [['mentions', 'release', '--agent', 'nobody', '--session', 'x'], 6, /no agent 'nobody'/],
    [['mentions', 'lost'], 2, /no command/]]) {
    const answer = await p.dibs(...args);
    assert.equal(answer.code, code, `${args.join(' ')}: ${answer.err}`);
    assert.match(answer.err, says, args.join(' '));
    const json = await p.run([...args, '--json']);
    assert.equal(json.code, code, args.join(' '));
    assert.equal(JSON.parse(json.out).success, false);
  }
});
