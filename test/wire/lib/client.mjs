// SPDX-License-Identifier: MIT
// One connection that is kept alive, for tests that send very many requests: it knows just enough
// HTTP for that, costs a fraction of node's own client, and can be dropped at any moment.
import net from 'node:net';

const HEAD_END = '\r\n\r\n';

export class Gone extends Error {}

export class Client {
  /** `h`: the House. The socket is opened at the first request. */
  constructor(h) {
    this.h = h;
    this.waiting = [];
    this.clear();
  }

  clear() {
    this.parts = [];
    this.have = 0; // bytes in parts
    this.need = 0; // bytes of head and body of the answer that is coming in; 0: not known yet
  }

  open() {
    this.clear();
    const socket = net.connect(this.h.port, '127.0.0.1').setNoDelay(true);
    this.socket = socket;
    socket.on('data', (part) => { if (this.socket === socket) this.take(part); });
    socket.on('error', () => {}).on('close', () => { if (this.socket === socket) this.drop(); });
  }

  take(part) {
    this.parts.push(part);
    this.have += part.length;
    if (this.have < this.need) return;
    let all = this.parts.length === 1 ? part : Buffer.concat(this.parts);
    for (;;) {
      const end = this.need === 0 ? all.indexOf(HEAD_END) : this.headEnd;
      if (end === -1) break;
      const head = all.latin1Slice(0, end);
      const length = Number(/\r\nContent-Length: (\d+)/.exec(head)[1]);
      this.headEnd = end;
      this.need = end + HEAD_END.length + length;
      if (all.length < this.need) break;
      const body = all.utf8Slice(end + HEAD_END.length, this.need);
      all = all.subarray(this.need);
      this.need = 0;
      this.answer(Number(head.slice(9, 12)), body);
    }
    this.parts = all.length > 0 ? [all] : [];
    this.have = all.length;
  }

  answer(status, text) {
    const { done } = this.waiting.shift();
    done({ status, text, json: text.startsWith('{') ? JSON.parse(text) : undefined });
  }

  /** Sends a request; several may be under way (they are pipelined). Rejects with Gone when the
   * connection ends before the answer. */
  send(method, path, body, headers = '') {
    if (!this.socket) this.open();
    const text = body === undefined ? '' : JSON.stringify(body);
    const more = body === undefined ? '' : 'Content-Type: application/json\r\n'
      + `Content-Length: ${Buffer.byteLength(text)}\r\n`;
    const host = `Host: 127.0.0.1:${this.h.port}\r\nAccept: application/json\r\n`;
    this.socket.write(`${method} ${path} HTTP/1.1\r\n${host}${more}${headers}\r\n${text}`);
    return new Promise((done, failed) => { this.waiting.push({ done, failed }); });
  }

  post(path, body, headers) {
    return this.send('POST', path, body, headers);
  }

  get(path) {
    return this.send('GET', path);
  }

  /** Hangs up at once, whatever is under way; the next request opens a new connection. */
  drop() {
    const { waiting, socket } = this;
    this.waiting = [];
    this.socket = undefined;
    socket?.destroy();
    for (const { failed } of waiting) failed(new Gone('the connection ended before the answer'));
  }
}

/** Numbers that are the same for the same seed (mulberry32). */
export function randomFrom(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  return { chance: (p) => next() < p, below: (n) => Math.floor(next() * n) };
}

/** The value below which a share of the values lie; sorts them. */
export function percentile(values, share) {
  if (values.length === 0) return NaN;
  values.sort((a, b) => a - b);
  return values[Math.min(values.length - 1, Math.floor(values.length * share))];
}
