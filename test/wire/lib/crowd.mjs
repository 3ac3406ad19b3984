// SPDX-License-Identifier: MIT
// Connections by the thousand, each as cheap as it can be, and what they cost the daemon.
import { readFileSync, readdirSync } from 'node:fs';
import net from 'node:net';

/** Resident memory of the daemon in MB, and how many descriptors it has open. */
export function footprint(h) {
  const status = readFileSync(`/proc/${h.daemon.child.pid}/status`, 'utf8');
  return {
    megabytes: Number(/VmRSS:\s+(\d+) kB/.exec(status)[1]) / 1024,
    files: readdirSync(`/proc/${h.daemon.child.pid}/fd`).length,
  };
}

/** How many descriptors a process like this one may have. */
export function filesMax() {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const [, hard] = /Max open files\s+\d+\s+(\d+|unlimited)/.exec(limits);
  return hard === 'unlimited' ? Infinity : Number(hard);
}

/** A connection that sends something and keeps the end of what comes back. */
export class Line {
  constructor(h, bytes) {
    this.isOver = false;
    this.tail = '';
    this.received = 0;
    this.socket = net.connect(h.port, '127.0.0.1');
    this.socket.setEncoding('latin1').on('data', (text) => {
      this.received += text.length;
      this.tail = (this.tail + text).slice(-400);
    });
    this.socket.on('error', () => {}).on('close', () => { this.isOver = true; });
    if (bytes) this.socket.write(bytes);
  }

  close() {
    this.socket.destroy();
  }
}

/** `count` lines, opened a few at a time, each of which satisfies `isReady` at the end. */
export async function crowd(h, count, bytes, isReady) {
  const all = [];
  while (all.length < count) {
    const length = Math.min(200, count - all.length);
    const some = Array.from({ length }, () => new Line(h, bytes));
    all.push(...some);
    while (!some.every(isReady)) {
      if (some.some(({ isOver }) => isOver)) throw new Error(`hung up on: ${some[0].tail}`);
      await new Promise((next) => setImmediate(next));
    }
  }
  return all;
}
