// SPDX-License-Identifier: MIT
// The linter, in the version that package-lock.json pins, kept in the user's cache folder: outside
// of the tree, and there already the next time.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const here = new URL('..', import.meta.url).pathname;
const QUIET = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' };

/** The linter: {program}, or where it cannot be had {why}. */
export function linter() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major < 20 || (major === 20 && minor < 19)) return { why: 'the linter needs node 20.19' };
  try {
    return { program: install() };
  } catch (error) {
    return { why: `the linter cannot be installed: ${error.stderr || error.message}` };
  }
}

/** The path of the linter, after installing it where that has not been done yet. */
function install() {
  const lock = readFileSync(join(here, 'package-lock.json'));
  const version = createHash('sha256').update(lock).digest('hex').slice(0, 16);
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'dibs-test');
  const home = join(cache, `redocly-${version}`);
  const program = join(home, 'node_modules/.bin/redocly');
  if (existsSync(program)) return program;
  mkdirSync(cache, { recursive: true });
  const fresh = mkdtempSync(join(cache, 'new-'));
  try {
    for (const name of ['package.json', 'package-lock.json']) {
      cpSync(join(here, name), join(fresh, name));
    }
    const options = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    execFileSync('npm', options, { cwd: fresh, stdio: ['ignore', 'pipe', 'pipe'] });
    rmSync(home, { recursive: true, force: true }); // half of one, from a run that was stopped
    renameSync(fresh, home);
  } catch (error) {
    if (!existsSync(program)) throw error; // else somebody else was quicker
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
  return program;
}

/** Lints a file with the recommended rules: {code, out, err}. */
export function lint(program, file) {
  const done = spawnSync(process.execPath, [program, 'lint', '--extends=recommended',
    '--format=json', file], { encoding: 'utf8', env: { ...process.env, ...QUIET } });
  return { code: done.status, out: done.stdout, err: done.stderr };
}
