// SPDX-License-Identifier: MIT
// docs/swarm.md: every command on the page is typed, in the order of the page, with a daemon in the
// folder, and prints what the page says.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { place } from '../cli/lib/dibs.mjs';
import { plain, play, read } from './lib/transcript.mjs';

const root = process.env.DIBS_SOURCE_ROOT ?? join(import.meta.dirname, '../..');

test('what docs/swarm.md shows happens as shown', async (t) => {
  const p = await place(t, { daemon: true });
  p.env = {};
  const steps = read(readFileSync(join(root, 'docs/swarm.md'), 'utf8'));
  assert.ok(steps.length > 40);
  await play(p, steps, ({ prompt, typed, printed }, out) => {
    assert.equal(plain(out), plain(printed.join('\n')), `${prompt}$ ${typed}`);
  });
  assert.equal((await p.dibs('doctor', '--deep')).code, 0);
});
