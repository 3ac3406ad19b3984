// SPDX-License-Identifier: MIT
// The command line itself: where options may stand, what is refused, help, and that the manual page
// and the completions name every command and option, and no other.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Place, place } from './lib/dibs.mjs';

const root = process.env.DIBS_SOURCE_ROOT ?? join(import.meta.dirname, '../..');
const source = (path) => readFileSync(join(root, path), 'utf8');
const sorted = (list) => [...new Set(list)].sort();

/** Every command with its options, and those of every command under "(every)". */
async function commands(p) {
  const { out } = await p.dibs('help', '--commands');
  return new Map(out.trimEnd().split('\n').map((line) => {
    const [name, ...options] = line.split('\t');
    return [name, options];
  }));
}

test('options may stand anywhere, with a blank or an equals sign', async (t) => {
  const p = await place(t);
  for (const args of [['task', 'add', 'a', '--type', 'x', '--json'],
    ['--json', 'task', 'add', '--type=x', 'a'], ['task', '--json', 'add', 'a', '--type=x'],
    ['--data', '.dibs', 'task', 'add', '--type', 'x', '--json', '--', 'a'],
    ['--default-ttl=5m', '--json', 'task', 'add', 'a', '--type', 'y', '--type', 'x']]) {
    const { code, out, err } = await p.dibs(...args);
    assert.equal(code, 0, err);
    const { task } = JSON.parse(out);
    assert.equal(task.title, 'a');
    assert.equal(task.type, 'x');
  }
});

test('behind -- everything is a word', async (t) => {
  const p = await place(t);
  assert.match((await p.dibs('task', 'add', '--', '--json')).out, /^added 1 '--json'/);
});

test('what is the value of an option is not an option', async (t) => {
  const p = await place(t);
  const { out } = await p.dibs('task', 'add', 'a', '--description', '--json');
  assert.equal(out, "added 1 'a' (open, priority 50)\n");
  assert.equal((await p.json('task', 'show', '1')).task.description, '--json');
});

test('an unknown option is exit code 2, named, and the nearest one suggested', async (t) => {
  const p = await place(t);
  for (const [args, wrong, near] of [
    [['task', 'list', '--limti', '3'], '--limti', '--limit'],
    [['task', 'add', 'x', '--prioritiy=3'], '--prioritiy', '--priority'],
    [['claim', '--jsno'], '--jsno', '--json'],
    [['config', '--defualt-ttl', '3m'], '--defualt-ttl', '--default-ttl']]) {
    const { code, out, err } = await p.dibs(...args);
    assert.equal(code, 2);
    assert.equal(out, '');
    assert.equal(err, `dibs: unknown option '${wrong}'; did you mean '${near}'?\n`);
  }
  const far = await p.dibs('stats', '--xyzzy');
  assert.equal(far.err, "dibs: unknown option '--xyzzy'\n");
  assert.equal((await p.dibs('stats', '-Z')).code, 2);
  assert.equal((await p.dibs('--xyzzy')).code, 2);
});

test('an unknown command is exit code 2, and the nearest one suggested', async (t) => {
  const p = await place(t);
  assert.match((await p.dibs('clam')).err, /no command 'clam'; did you mean 'claim'\?/);
  assert.match((await p.dibs('task', 'lst')).err, /'task lst'; did you mean 'task list'\?/);
  assert.match((await p.dibs('task')).err, /'task' needs another word/);
  assert.match((await p.dibs('frobnicate')).err, /no command 'frobnicate'; see: dibs help/);
  for (const args of [['clam'], ['task', 'lst'], ['task'], ['frobnicate'], ['help', 'nosuch']]) {
    assert.equal((await p.dibs(...args)).code, 2);
  }
});

test('too many, too few and empty words are exit code 2 with the usage', async (t) => {
  const p = await place(t);
  for (const args of [['task', 'add'], ['task', 'add', 'a', 'b'], ['stats', 'x'], ['done'],
    ['task', 'show', ''], ['task', 'list', '--limit'], ['task', 'list', '--all=yes']]) {
    const { code, err } = await p.dibs(...args);
    assert.equal(code, 2, JSON.stringify(args));
    assert.match(err, /^dibs: /);
  }
  const { err } = await p.dibs('done');
  assert.match(err, /usage: dibs done ID/);
});

test('text that is not UTF-8 is refused', async (t) => {
  const p = await place(t);
  assert.equal((await p.sh('"$dibs" task add "$(printf "\\377")"')).code, 2);
  assert.equal((await p.sh('"$dibs" task list --type "$(printf "\\377")"')).code, 2);
});

test('usage errors are JSON too when JSON was asked for', async (t) => {
  const p = await place(t);
  for (const args of [['task', 'list', '--limti'], ['clam'], ['done'], ['task'], []]) {
    const answer = await p.json(...args);
    assert.equal(answer.success, false);
    assert.equal(answer.error, 'INVALID_REQUEST');
  }
});

test('there is help for every command, without a store', async (t) => {
  const p = new Place(t);
  for (const [name, options] of await commands(p)) {
    if (name === '(every)') continue;
    const words = name.split(' ');
    const { code, out } = await p.dibs('help', ...words);
    assert.equal(code, 0, name);
    assert.ok(out.startsWith(`dibs ${name}`), out);
    for (const option of options) assert.ok(out.includes(option), `${name} ${option}`);
    const same = await p.dibs(...words, '--help');
    assert.equal(same.code, 0);
    assert.ok(out.startsWith(same.out.trimEnd()), name);
  }
});

test('help alone lists all commands; so does no command at all, as an error', async (t) => {
  const p = new Place(t);
  const { code, out } = await p.dibs('help');
  assert.equal(code, 0);
  for (const name of (await commands(p)).keys()) {
    if (name !== '(every)') assert.match(out, new RegExp(`^  ${name} `, 'm'));
  }
  assert.equal((await p.dibs('--help')).out, out);
  const nothing = await p.dibs();
  assert.equal(nothing.code, 2);
  assert.equal(nothing.out, '');
  assert.equal(nothing.err, out);
  assert.match((await p.dibs('task', '--help')).out, /task import/);
  assert.match((await p.dibs('help', 'session')).out, /session resume/);
  const json = await p.json('help');
  assert.ok(json.commands.some((c) => c.name === 'task add'));
  assert.deepEqual((await p.json('help', 'claim')).commands.map((c) => c.name), ['claim']);
  const task = (await p.json('help', 'task', 'add')).commands;
  assert.deepEqual(task.map((c) => c.name), ['task add']);
  assert.ok((await p.json('help', 'task')).commands.every((c) => c.name.startsWith('task ')));
  assert.equal((await p.json('help', 'nosuch')).success, false);
});

test('version', async (t) => {
  const p = new Place(t);
  assert.match((await p.dibs('version')).out, /^dibs \d+\.\d+\.\d+\n$/);
  assert.equal((await p.dibs('--version')).out, (await p.dibs('version')).out);
  assert.match((await p.json('version')).version, /^\d/);
});

test('the manual page has every command and option, and no other', async (t) => {
  const all = await commands(new Place(t));
  const page = source('docs/dibs.1').replaceAll('\\-', '-');
  const named = [...page.matchAll(/^\.SS dibs ([a-z-]+(?: [a-z-]+)?)/gm)].map((m) => m[1]);
  const every = all.get('(every)');
  all.delete('(every)');
  assert.deepEqual(sorted(named), sorted(all.keys()));
  for (const [name, options] of all) {
    const part = page.split(`.SS dibs ${name}`)
      .find((text, i) => i > 0 && /^( [^a-z]|\n)/.test(text)).split(/^\.S[SH]/m)[0];
    const rows = [...part.matchAll(/^\\fB.*$/gm)].map((m) => m[0].replaceAll(/\\f./g, ''));
    const found = rows.flatMap((row) => [...row.matchAll(/(?<![\w-])--?[a-z][\w-]*/g)])
      .map((m) => m[0]);
    assert.deepEqual(sorted(found), sorted(options), name);
  }
  for (const option of every) assert.ok(page.includes(option), option);
});

test('the bash completion has every command and option, and no other', async (t) => {
  const all = await commands(new Place(t));
  const p = await place(t);
  const groups = sorted([...all.keys()].filter((c) => c.includes(' ')).map((c) => c.split(' ')[0]));
  const ask = `source ${root}/completions/dibs.bash; echo "(every)" $_dibs_every
    for c in ${[...all.keys()].map((c) => `"${c}"`).join(' ')}; do
      echo "$c:" $(_dibs_options "$c")
    done; echo "words:" $(_dibs_words "")
    for g in ${groups.join(' ')}; do echo "$g=" $(_dibs_words $g); done`;
  const { out, err } = await p.spawn('bash', ['-c', ask]).ended;
  assert.equal(err, '');
  const lines = out.trimEnd().split('\n');
  const line = (start) => lines.find((x) => x.startsWith(start)).slice(start.length).trim()
    .split(' ').filter(Boolean);
  assert.deepEqual(sorted(line('(every)')), sorted(all.get('(every)')));
  all.delete('(every)');
  for (const [name, options] of all) {
    assert.deepEqual(sorted(line(`${name}:`)), sorted(options), name);
  }
  assert.deepEqual(sorted(line('words:')), sorted([...all.keys()].map((c) => c.split(' ')[0])));
  for (const group of groups) {
    const words = [...all.keys()].filter((c) => c.startsWith(`${group} `));
    assert.deepEqual(sorted(line(`${group}=`)), sorted(words.map((c) => c.split(' ')[1])));
  }
});

test('the bash completion completes words, options, values and ids', async (t) => {
  const p = await place(t);
  await p.dibs('task', 'add', 'a', '--id', 'some-task');
  const complete = async (...words) => {
    const script = `source ${root}/completions/dibs.bash; PATH="$(dirname "$dibs"):$PATH"
      COMP_WORDS=(dibs "$@"); COMP_CWORD=$#; _dibs 2>/dev/null; echo "\${COMPREPLY[*]}"`;
    const more = { env: { dibs: process.env.DIBS_BIN } };
    const { out } = await p.spawn('bash', ['-c', script, 'bash', ...words], more).ended;
    return out.trim();
  };
  assert.equal(await complete('ta'), 'task');
  assert.equal(await complete('--json', 'task', 'im'), 'import');
  assert.equal(await complete('task', 'add', '--dep'), '--depends-on');
  assert.equal(await complete('task', 'list', '--status', 'bl'), 'blocked');
  assert.equal(await complete('claim', 'so'), 'some-task');
  assert.equal(await complete('cleanup', '--type', 'or'), 'orphaned');
  await p.dibs('agent', 'register', 'some-agent');
  assert.equal(await complete('agent', 'show', 'so'), 'some-agent');
  assert.equal(await complete('poll', '--agent', 'so'), 'some-agent');
  assert.equal(await complete('inbox', 'list', '--status', 'un'), 'unread');
  await p.dibs('offer', 'some-task', 'some-agent');
  assert.equal(await complete('accept', 'so'), 'some-task');
});

test('the zsh completion has every command and option, and no other', async (t) => {
  const all = await commands(new Place(t));
  const text = source('completions/_dibs');
  const option = /['*(,{](--?[a-z][\w-]*)(?=[[},])/g;
  const options = (part) => [...part.matchAll(option)].map((m) => m[1]);
  const every = /every=\(\n(.*?)\n {4}\)/s.exec(text)[1];
  assert.deepEqual(sorted(options(every)), sorted(all.get('(every)')));
  all.delete('(every)');
  const cases = text.slice(text.indexOf('options=()'));
  const found = [...cases.matchAll(/^ {4}'([a-z -]+)'\)\n(.*?)^ {8};;/gms)];
  assert.deepEqual(sorted(found.map((m) => m[1])), sorted(all.keys()));
  for (const [, name, part] of found) {
    assert.deepEqual(sorted(options(part)), sorted(all.get(name)), name);
  }
});

test('the fish completion has every command and option, and no other', async (t) => {
  const all = await commands(new Place(t));
  const found = new Map([...all.keys()].map((name) => [name, []]));
  const words = [];
  for (const line of source('completions/dibs.fish').split('\n')) {
    const option = /^complete -c dibs(?: -n '__dibs_at ([^']+)')?(?: -s (\w))? -l ([\w-]+)/
      .exec(line);
    const word = /^complete -c dibs -n '?__dibs_(?:none|group (\w+))'? -a ([\w-]+)/.exec(line);
    if (option) {
      const list = found.get(option[1] ?? '(every)');
      list.push(`--${option[3]}`);
      if (option[2]) list.push(`-${option[2]}`);
    }
    if (word) words.push(word[1] ? `${word[1]} ${word[2]}` : word[2]);
  }
  for (const [name, options] of all) {
    assert.deepEqual(sorted(found.get(name)), sorted(options), name);
  }
  all.delete('(every)');
  const expected = [...all.keys(), ...[...all.keys()].map((c) => c.split(' ')[0])];
  assert.deepEqual(sorted(words), sorted(expected));
});
