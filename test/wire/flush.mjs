// SPDX-License-Identifier: MIT
// A disk that fails to flush: nothing that may be lost is answered as done, and the daemon ends
// rather than going on with what the kernel may have thrown away. strace makes the flush fail.
import assert from 'node:assert/strict';
import test from 'node:test';

import { House, program, Running, until } from './lib/daemon.mjs';

const sanitized = process.env.DIBS_SANITIZED === '1'; // strace and LeakSanitizer do not get along

/** A daemon of which the flushes from the nth on fail. */
async function failing(t, nth) {
  const h = new House(t);
  await h.dibs('init');
  h.daemon = new Running('strace', ['-f', '-o', '/dev/null', '-e', 'trace=fdatasync,fsync',
    '-e', `inject=fdatasync,fsync:error=EIO:when=${nth}+`,
    program, '--data', h.data, 'serve', '--listen', '127.0.0.1:0'], { cwd: h.dir });
  h.started.push(h.daemon);
  await until('it listens', () => h.daemon.out.includes('dashboard at'));
  h.port = Number(/http:\/\/127\.0\.0\.1:(\d+)/.exec(h.daemon.out)[1]);
  return h;
}

for (const [how, together] of [['one by one', 1], ['many at once', 40]]) {
  test(`a failed flush is never answered as done: ${how}`, { skip: sanitized }, async (t) => {
    const h = await failing(t, 12);
    const promised = [];
    const waiter = h.post('/api/tasks/claim',
      { worker_id: 'w', task_types: ['none'], wait_ms: 600_000 }).catch(() => null);
    let next = 0;
    const work = async () => {
      for (;;) {
        const id = `t${next++}`;
        const answer = await h.post('/api/tasks', { id, title: 'x' }).catch(() => null);
        if (answer === null || answer.status >= 500) return;
        if (answer.status === 201) promised.push(id);
      }
    };
    await Promise.all(Array.from({ length: together }, work));
    const { code } = await h.daemon.ended;
    assert.equal(code, 10);
    const told = await waiter;
    assert.ok(told === null || told.status === 503, 'who waited was hung up on, or told');
    assert.match(h.daemon.err, /flush to disk/);
    assert.ok(promised.length > 0, 'some were done before');
    await h.start();
    for (const id of promised) {
      assert.equal((await h.get(`/api/tasks/${id}`)).status, 200, `${id} was promised`);
    }
  });
}
