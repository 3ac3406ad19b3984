// SPDX-License-Identifier: MIT
// dibs init, config, doctor, backup, and how the store is found.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, openSync, readFileSync, writeSync, closeSync, writeFileSync }
  from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Place, place } from './lib/dibs.mjs';

/** Makes nonsense of the beginning of the data file. */
function damage(p) {
  const fd = openSync(join(p.dir, '.dibs/dibs.db'), 'r+');
  writeSync(fd, 'this is no database at all, is it? '.repeat(200), 0);
  closeSync(fd);
}

test('init makes a store and leaves one that is there alone', async (t) => {
  const p = new Place(t);
  const made = await p.dibs('init');
  assert.equal(made.code, 0);
  assert.equal(made.out, `made ${p.dir}/.dibs\n`);
  assert.ok(existsSync(join(p.dir, '.dibs/dibs.db')));
  assert.equal(readFileSync(join(p.dir, '.dibs/.gitignore'), 'utf8'), '*\n');
  await p.dibs('task', 'add', 'kept');
  assert.match((await p.dibs('init')).out, /^already there: /);
  assert.match((await p.dibs('task', 'list')).out, /kept/);
});

test('init DIR makes DIR/.dibs, --data names the data folder itself', async (t) => {
  const p = new Place(t);
  assert.equal((await p.dibs('init', 'project')).code, 0);
  assert.ok(existsSync(join(p.dir, 'project/.dibs/dibs.db')));
  assert.equal((await p.dibs('init', '--data', 'elsewhere')).code, 0);
  assert.ok(existsSync(join(p.dir, 'elsewhere/dibs.db')));
  assert.equal((await p.dibs('init', 'x', '--data', 'y')).code, 2);
  assert.equal((await p.dibs('--data', 'elsewhere', 'task', 'add', 'a')).code, 0);
});

test('the store is found from the folders below it', async (t) => {
  const p = await place(t);
  mkdirSync(join(p.dir, 'a/b/c'), { recursive: true });
  const added = await p.run(['task', 'add', 'deep'], { cwd: join(p.dir, 'a/b/c') });
  assert.equal(added.code, 0);
  assert.match((await p.dibs('task', 'list')).out, /deep/);
});

test('without a store the answer says where it looked and how to make one', async (t) => {
  const p = new Place(t);
  for (const command of [['task', 'list'], ['claim'], ['config'], ['stats']]) {
    const { code, out, err } = await p.dibs(...command);
    assert.equal(code, 15);
    assert.equal(out, '');
    assert.ok(err.includes(`'${p.dir}'`), err);
    assert.match(err, /make one with: dibs init/);
  }
  const named = await p.run(['task', 'list'], { env: { DIBS_DATA: '/no/such/folder' } });
  assert.equal(named.code, 15);
  assert.match(named.err, /'\/no\/such\/folder' \(from DIBS_DATA\)/);
  assert.equal((await p.json('task', 'list')).error, 'STORE_NOT_FOUND');
});

test('DIBS_DATA is used, and --data wins over it', async (t) => {
  const p = new Place(t);
  await p.dibs('init', '--data', 'one');
  await p.dibs('init', '--data', 'two');
  const env = { DIBS_DATA: join(p.dir, 'one') };
  await p.run(['task', 'add', 'in one'], { env });
  await p.run(['task', 'add', 'in two', '--data', 'two'], { env });
  assert.match((await p.run(['task', 'list'], { env })).out, /in one/);
  assert.match((await p.dibs('task', 'list', '--data=two')).out, /in two/);
});

test('config says what is in force and where it came from', async (t) => {
  const p = await place(t);
  writeFileSync(join(p.dir, '.dibs/config'), 'maxTTL = 3h\n');
  const env = { DIBS_LOCK_TTL: '90s' };
  const { out } = await p.run(['config', '--default-ttl', '45m'], { env });
  assert.match(out, /defaultTTL +45m +option/);
  assert.match(out, /maxTTL +3h +config file/);
  assert.match(out, /lockTTL +90s +environment/);
  assert.match(out, /minTTL +1m +default/);
  const { settings } = await p.json('config');
  assert.equal(settings.find((s) => s.name === 'maxTTL').valueMs, 3 * 3_600_000);
});

test('every setting is an option, named as its variable is', async (t) => {
  const p = await place(t);
  const { settings } = await p.json('config');
  assert.ok(settings.length >= 12);
  for (const s of settings) {
    const option = s.environment.replace('DIBS_', '--').toLowerCase().replaceAll('_', '-');
    const value = String(s.valueMs ?? s.value);
    const after = await p.json('config', option, value);
    assert.equal(after.settings.find((x) => x.name === s.name).origin, 'option', option);
  }
  const bad = await p.dibs('config', '--default-ttl', 'soon');
  assert.equal(bad.code, 2);
  assert.match(bad.err, /defaultTTL/);
});

test('the doctor finds a healthy store fine', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a');
  const { code, out } = await p.dibs('doctor', '--deep');
  assert.equal(code, 0);
  assert.match(out, /^fine +store/m);
  assert.doesNotMatch(out, /^bad/m);
  assert.equal((await p.json('doctor')).success, true);
});

test('the doctor says what is wrong with a damaged store, and what to do', async (t) => {
  const p = await place(t, { daemon: false });
  await p.dibs('task', 'add', 'a');
  damage(p);
  const before = readFileSync(join(p.dir, '.dibs/dibs.db'));
  const { code, out } = await p.dibs('doctor');
  assert.equal(code, 1);
  assert.match(out, /^bad +store .*; restore a backup: stop .* dibs\.db-wal .*mode 0600/m);
  assert.equal(out.match(/restore/g).length, 1);
  assert.equal((await p.json('doctor')).findings[0].level, 'bad');
  const list = await p.dibs('task', 'list');
  assert.equal(list.code, 12);
  assert.match(list.err, /try: dibs doctor/);
  assert.deepEqual(readFileSync(join(p.dir, '.dibs/dibs.db')), before, 'the file was touched');
});

test('the doctor says once what to do about a store of a newer program', async (t) => {
  const p = await place(t, { daemon: false });
  const sql = "INSERT INTO schema_migration VALUES (9999, 'from_the_future', 1, 0)";
  assert.equal((await p.spawn('sqlite3', ['.dibs/dibs.db', sql]).ended).code, 0);
  const { code, out } = await p.dibs('doctor');
  assert.equal(code, 1);
  assert.match(out, /^bad +store .*from_the_future/);
  assert.equal(out.match(/upgrade/g).length, 1);
  assert.equal((await p.dibs('task', 'list')).code, 13);
});

test('the doctor speaks where there is no store at all', async (t) => {
  const p = new Place(t);
  const { code, out } = await p.dibs('doctor');
  assert.equal(code, 1);
  assert.match(out, /^bad +store .*dibs init/m);
  assert.equal((await p.json('doctor')).success, false);
});

test('a backup is a store of its own, and nothing is overwritten', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'saved');
  const { code, out } = await p.dibs('backup', 'copy.db');
  assert.equal(code, 0);
  assert.equal(out, 'backed up to copy.db\n');
  assert.notEqual((await p.dibs('backup', 'copy.db')).code, 0);
  mkdirSync(join(p.dir, 'restored'));
  writeFileSync(join(p.dir, 'restored/dibs.db'), readFileSync(join(p.dir, 'copy.db')));
  assert.match((await p.dibs('--data', 'restored', 'task', 'list')).out, /saved/);
  assert.equal((await p.json('backup', 'second.db')).path, 'second.db');
});

test('a backup is restored as the help says, and not beside the log of another file', async (t) => {
  const p = await place(t, { daemon: false });
  await p.dibs('task', 'add', 'saved');
  await p.dibs('backup', 'copy.db');
  await p.dibs('task', 'add', 'lost');
  const { out } = await p.dibs('help', 'backup');
  const words = out.replaceAll(/\s+/g, ' ');
  assert.ok(words.includes('delete dibs.db, dibs.db-wal and dibs.db-shm in the data folder'), out);
  assert.ok(words.includes('copy the backup there as dibs.db (mode 0600)'), out);
  await p.sh('cp copy.db .dibs/dibs.db && echo a former log >.dibs/dibs.db-wal');
  const refused = await p.dibs('task', 'list');
  assert.equal(refused.code, 12);
  assert.match(refused.err, /delete '.*dibs\.db-wal'/);
  const doctor = await p.dibs('doctor');
  assert.equal(doctor.code, 1);
  assert.doesNotMatch(doctor.out, /restore/);
  await p.sh(`cd .dibs && rm -f dibs.db dibs.db-wal dibs.db-shm && cp ../copy.db dibs.db &&
    chmod 0600 dibs.db`);
  const list = await p.dibs('task', 'list');
  assert.match(list.out, /saved/);
  assert.doesNotMatch(list.out, /lost/);
});
