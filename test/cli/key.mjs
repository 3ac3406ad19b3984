// SPDX-License-Identifier: MIT
// dibs key add, list, revoke.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { place } from './lib/dibs.mjs';

const KEY = /^dibs_(k[a-z2-9]{6})_([a-z2-9]{52})$/;

test('add prints the key once, and says what it is', async (t) => {
  const p = await place(t);
  const { code, out, err } = await p.dibs('key', 'add', 'ci', '--role', 'worker',
    '--project', 'web', '--rate', '600');
  assert.equal(code, 0);
  const [about, key] = out.split('\n');
  const [, id, secret] = KEY.exec(key);
  assert.equal(about, `added ${id} 'ci': worker, project 'web', 600 requests per minute`);
  assert.match(err, /DIBS_API_KEY/);
  assert.ok(!err.includes(secret));
  for (const args of [['key', 'list'], ['key', 'list', '--json'], ['events', '--json']]) {
    const shown = await p.dibs(...args);
    assert.ok(shown.out.includes(id));
    assert.ok(!shown.out.includes(secret));
  }
});

test('the secret is in none of the files', async (t) => {
  const p = await place(t);
  const { out } = await p.dibs('key', 'add', 'ci', '--role', 'admin', '-q');
  const [, id, secret] = KEY.exec(out.trim());
  const files = readdirSync(join(p.dir, '.dibs')).filter((name) => name !== 'dibs.sock')
    .map((name) => join(p.dir, '.dibs', name));
  const bytes = Buffer.concat(files.map((file) => readFileSync(file)));
  assert.ok(bytes.includes(id));
  assert.ok(!bytes.includes(secret.slice(0, 20)));
  assert.ok(!bytes.includes(secret.slice(30, 52)));
});

test('with --quiet the key is all there is, with --json it is a member', async (t) => {
  const p = await place(t);
  const quiet = await p.dibs('key', 'add', 'a', '--role', 'read', '-q');
  assert.match(quiet.out, /^dibs_k[a-z2-9]{6}_[a-z2-9]{52}\n$/);
  assert.equal(quiet.err, '');
  const json = await p.json('key', 'add', 'b', '--role', 'read', '--rate', '0');
  assert.match(json.apiKey, KEY);
  assert.equal(json.key.ratePerMinute, 0);
  assert.equal(json.key.project, undefined);
});

test('only --project limits a key, not the project that the shell is in', async (t) => {
  const p = await place(t);
  const { out } = await p.run(['key', 'add', 'a', '--role', 'read', '--json'],
    { env: { DIBS_PROJECT: 'web' } });
  assert.equal(JSON.parse(out).key.project, undefined);
});

test('list shows those in use, --all also what was revoked', async (t) => {
  const p = await place(t);
  assert.equal((await p.dibs('key', 'list')).out, 'no keys\n');
  const { key } = await p.json('key', 'add', 'old', '--role', 'admin');
  await p.dibs('key', 'add', 'new', '--role', 'read', '--rate', '0');
  assert.equal((await p.dibs('key', 'revoke', key.id)).out, `revoked ${key.id} 'old'\n`);
  const used = (await p.dibs('key', 'list')).out;
  assert.match(used, /^k\w{6} +new +read +all +no limit +\w{4} +now$/m);
  assert.doesNotMatch(used, /old|REVOKED/);
  const all = (await p.dibs('key', 'list', '--all')).out;
  assert.match(all, /^k\w{6} +old +admin +all +100 +\w{4} +now +now$/m);
  assert.equal((await p.dibs('key', 'list', '-q')).out.split('\n').length, 2);
});

test('revoke is journalled once, and a name is free again', async (t) => {
  const p = await place(t);
  const { key } = await p.json('key', 'add', 'ci', '--role', 'worker');
  const twice = await p.dibs('key', 'add', 'ci', '--role', 'worker');
  assert.equal(twice.code, 2);
  assert.match(twice.err, /'ci'/);
  await p.dibs('key', 'revoke', key.id);
  await p.dibs('key', 'revoke', key.id);
  assert.equal((await p.dibs('key', 'add', 'ci', '--role', 'worker')).code, 0);
  const { events } = await p.json('events', '--types', 'key:added,key:revoked');
  assert.deepEqual(events.map((e) => e.type), ['key:added', 'key:revoked', 'key:added']);
  assert.equal(events[0].data.keyId, key.id);
});

test('what is not possible says so with its exit code', async (t) => {
  const p = await place(t);
  const cases = [
    [['key', 'add', 'x'], 2, /role/],
    [['key', 'add', 'x', '--role', 'root'], 2, /'read', 'worker', 'admin'/],
    [['key', 'add', 'x', '--role', 'read', '--rate', '-1'], 2, /rate/],
    [['key', 'add', 'x', '--role', 'read', '--rate', 'many'], 2, /--rate/],
    [['key', 'add', '', '--role', 'read'], 2, /empty|name/],
    [['key', 'add'], 2, /NAME/],
    [['key', 'revoke'], 2, /ID/],
    [['key', 'revoke', 'kaaaaaa'], 6, /no key 'kaaaaaa'/],
    [['key', 'revoke', 'not an id'], 2, /id/],
  ];
  for (const [args, code, says] of cases) {
    const answer = await p.dibs(...args);
    assert.equal(answer.code, code, args.join(' '));
    assert.match(answer.err, says, args.join(' '));
  }
  assert.deepEqual((await p.json('key', 'list')).keys, []);
});
