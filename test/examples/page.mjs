// SPDX-License-Identifier: MIT
// docs/swarm.md: every command on the page is typed, in the order of the page, with a daemon in the
// folder, and prints what the page says. So does what README.md shows of several agents.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { place } from '../cli/lib/dibs.mjs';
import { parts, plain, play, read, steps } from './lib/transcript.mjs';

const root = process.env.DIBS_SOURCE_ROOT ?? join(import.meta.dirname, '../..');

function same({ prompt, typed, printed }, out) {
  assert.equal(plain(out), plain(printed.join('\n')), `${prompt}$ ${typed}`);
}

test('what docs/swarm.md shows happens as shown', async (t) => {
  const p = await place(t, { daemon: true });
  p.env = {};
  const typed = read(readFileSync(join(root, 'docs/swarm.md'), 'utf8'));
  assert.ok(typed.length > 40);
  await play(p, typed, same);
  assert.equal((await p.dibs('doctor', '--deep')).code, 0);
});

test('what README.md shows of several agents happens as shown', async (t) => {
  const p = await place(t, { daemon: true });
  const page = readFileSync(join(root, 'README.md'), 'utf8');
  const section = page.split('\n## ').find((part) => part.startsWith('Several agents\n'));
  const [commands, shown] = parts(section).filter((part) => part.fence);
  const shell = (line) => p.sh(`PATH="$(dirname "$dibs"):.:$PATH"\n${line}`);
  const run = commands.lines.find((line) => line.startsWith('dibs run '));
  p.env = { DIBS_SESSION: /\S+-box-\d+/.exec(shown.lines.join(' '))[0] };
  for (const line of commands.lines.filter((other) => other !== run)) {
    assert.equal((await shell(line)).code, 0, line);
  }
  await play(p, steps(shown.lines), same);
  writeFileSync(join(p.dir, 'worker.sh'), '#!/bin/sh\necho "$DIBS_TRIGGER"\n', { mode: 0o755 });
  const { code, err } = await shell(run.replace(' run ', ' run --drain-when-empty '));
  assert.equal(code, 0, err);
  const { task } = await p.json('task', 'show', 'fence');
  assert.equal(task.status, 'completed', 'the offer was accepted, and the task done');
  assert.equal(task.result.output, 'task_assigned\n');
});
