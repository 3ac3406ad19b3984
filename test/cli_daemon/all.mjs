// SPDX-License-Identifier: MIT
// All tests of the command line once more, each with a daemon on its data folder: what a command
// prints and answers must not depend on the way that it takes.
// test-timeout: 300
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

process.env.DIBS_TEST_DAEMON = '1';
const alreadyHaveOne = ['daemon.mjs', 'watch.mjs'];
const folder = join(fileURLToPath(new URL('.', import.meta.url)), '../cli');
for (const name of readdirSync(folder).sort()) {
  if (name.endsWith('.mjs') && !alreadyHaveOne.includes(name)) await import(join(folder, name));
}
