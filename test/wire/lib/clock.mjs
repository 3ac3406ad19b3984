// SPDX-License-Identifier: MIT
// Waiting that costs nothing: until() of daemon.mjs asks as fast as it can, which is right for what
// comes at once, but takes a processor away from the daemon when something takes seconds.
const EVERY_MS = 5;

/** Asks now and then until the answer is true; fails with `what` after `limitMs`. */
export function eventually(what, ask, limitMs = 30_000) {
  const deadline = performance.now() + limitMs;
  return new Promise((done, failed) => {
    let isAsking = false;
    const timer = setInterval(async () => {
      if (isAsking) return;
      isAsking = true;
      try {
        const answer = await ask();
        if (answer) finish(done, answer);
        else if (performance.now() > deadline) finish(failed, new Error(`waited in vain: ${what}`));
      } catch (error) {
        finish(failed, error);
      }
      isAsking = false;
    }, EVERY_MS);
    const finish = (how, value) => {
      clearInterval(timer);
      how(value);
    };
  });
}

/** The moment `ms` from now on the clock that nobody sets, and the wait for it: leases end by a
 * clock that a test of the running daemon cannot move. */
export const from = (ms) => performance.now() + ms;
export const comes = (moment) =>
  eventually('time passes', () => performance.now() >= moment, 600_000);
