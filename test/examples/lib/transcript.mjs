// SPDX-License-Identifier: MIT
// Reads the blocks of a page in which people type commands at prompts, and runs them.
//
// A block is fenced by three backticks without a language. A line "$ ..." or "name$ ..." is typed;
// the lines up to the next such line are what was printed. Each name is a terminal of its own: what
// it exports stays. Times, ages and tokens differ from run to run and are not compared.

/** The page in parts: {text} between blocks, {fence, lines} for blocks. */
export function parts(page) {
  const found = [{ text: '' }];
  for (const line of page.split(/(?<=\n)/)) {
    const last = found.at(-1);
    if (last.lines && line === '```\n') found.push({ text: '' });
    else if (last.lines) last.lines.push(line.trimEnd());
    else if (line.startsWith('```')) found.push({ fence: line.trimEnd(), lines: [] });
    else last.text += line;
  }
  return found;
}

/** [{prompt, typed, printed}] of the lines of a block. */
export function steps(lines) {
  const found = [];
  for (const line of lines) {
    const typed = /^([a-z]*)\$ (.*)$/.exec(line);
    if (typed) found.push({ line, prompt: typed[1], typed: typed[2], printed: [] });
    else if (found.length === 0) throw new Error(`printed before anything was typed: ${line}`);
    else found.at(-1).printed.push(line);
  }
  return found;
}

/** All steps of a page. */
export function read(page) {
  return parts(page).filter((part) => part.fence === '```').flatMap((part) => steps(part.lines));
}

/** What was printed, without what differs from run to run. */
export function plain(text) {
  return text.trimEnd().split('\n').map((line) => line
    .replaceAll(/\d\d:\d\d:\d\d/g, 'TIME').replaceAll(/\bprocess \d+/g, 'process N')
    .replaceAll(/\bafter \d+\.\ds/g, 'after SPAN').replaceAll(/\(token \d+\)/g, '(token N)')
    .replaceAll(/\bin \d+[smh]\b/g, 'in SPAN').replaceAll(/\b(now|\d+(ms|s|m)( ago)?)$/g, 'AGE')
    .replaceAll(/ (now|\d+(ms|s|m) ago) /g, ' AGE ').replaceAll(/ \d+ +in SPAN/g, ' N in SPAN')
    .replaceAll(/ +/g, ' ')
    .trimEnd()).join('\n').trim();
}

/** Runs the steps in a place one after another; calls check(step, output) for each. */
export async function play(p, list, check) {
  const exports = new Map();
  for (const step of list) {
    const before = exports.get(step.prompt) ?? '';
    if (step.typed.startsWith('export ')) exports.set(step.prompt, `${before}${step.typed}\n`);
    const head = 'exec 2>&1\nPATH="$(dirname "$dibs"):$PATH"\n';
    const { out } = await p.sh(head + before + step.typed);
    await check(step, out);
  }
}
