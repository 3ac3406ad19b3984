// SPDX-License-Identifier: MIT
// A caller that sends bytes as they are and takes the answers apart by itself, so that a test sees
// what is on the wire and not what a polite client makes of it.
import net from 'node:net';

import { until } from './daemon.mjs';

const CRLF2 = '\r\n\r\n';

/** The first answer in `text` (latin1): {status, line, headers, body, bytes}; null: not all there.
 * `head`: it answers a HEAD. A body without a length goes to the end of the text. */
export function firstAnswer(text, head = false) {
  const end = text.indexOf(CRLF2);
  if (end < 0) return null;
  const [line, ...lines] = text.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(lines.map((each) => {
    const colon = each.indexOf(':');
    return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()];
  }));
  const status = Number(line.split(' ')[1]);
  const bare = head || status === 304 || status < 200;
  const length = bare ? 0 : Number(headers['content-length'] ?? text.length - end - 4);
  if (text.length < end + 4 + length) return null;
  return {
    status,
    line,
    headers,
    body: text.slice(end + 4, end + 4 + length),
    bytes: end + 4 + length
  };
}

/** All answers in `text`, in order. `heads`: which of them answer a HEAD, by number. */
export function allAnswers(text, heads = () => false) {
  const found = [];
  for (let rest = text; rest !== '';) {
    const answer = firstAnswer(rest, heads(found.length));
    if (answer === null)
      throw new Error(`half an answer behind ${found.length}: ${rest.slice(0, 300)}`);
    found.push(answer);
    rest = rest.slice(answer.bytes);
  }
  return found;
}

export class Caller {
  /** `h`: the House; more: socket (use the unix socket), paused (reads nothing). */
  constructor(t, h, more = {}) {
    this.parts = [];
    this.received = 0;
    this.isClosed = false;
    const where = more.socket ? { path: h.socket } : { port: h.port, host: '127.0.0.1' };
    this.socket = net.connect({ ...where, allowHalfOpen: more.halfOpen ?? false });
    this.socket.setNoDelay(true).on('error', (error) => { this.error = error; });
    if (!more.paused) {
      this.socket.on('data', (part) => {
        this.parts.push(part);
        this.received += part.length;
      });
    }
    this.connected = new Promise((done) => {
      this.socket.once('connect', done).once('close', done);
    });
    this.closed = new Promise((done) => {
      this.socket.once('close', () => {
        this.isClosed = true;
        done();
      });
    });
    t.after(() => this.socket.destroy());
  }

  get text() {
    const whole = Buffer.concat(this.parts);
    this.parts = [whole];
    return whole.toString('latin1');
  }

  /** Sends the bytes and resolves when the kernel has them. */
  send(bytes) {
    return new Promise((done) => { this.socket.write(bytes, 'latin1', () => done()); });
  }

  /** Waits until so many bytes or more have come, or the daemon has hung up. */
  async reaches(bytes) {
    await until(`${bytes} bytes come`, () => this.received >= bytes || this.isClosed);
    return this.text;
  }

  /** Waits for the next answer, takes it off what has come and returns it; null: there is none. */
  async answer({ head = false } = {}) {
    let answer = null;
    await until('an answer comes', () => {
      answer = firstAnswer(this.text, head);
      if (answer !== null && answer.headers['content-length'] === undefined && answer.status >= 200
        && answer.status !== 304 && !this.isClosed) answer = null;
      return answer !== null || this.isClosed;
    });
    answer ??= firstAnswer(this.text, head);
    if (answer === null) return null;
    this.parts = [Buffer.from(this.text.slice(answer.bytes), 'latin1')];
    this.received = this.parts[0].length;
    return answer;
  }

  /** Hangs up with an RST. */
  reset() {
    this.socket.resetAndDestroy();
    return this.closed;
  }
}

/** A request as bytes; a body gets its type and length. */
export function bytesOf(
  method, path, { headers = [], body, version = '1.1', host = 'localhost' } = {}) {
  const lines = [
    `${method} ${path} HTTP/${version}`, ...(host === null ? [] : [`Host: ${host}`]), ...headers
  ];
  if (body !== undefined)
    lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join('\r\n')}${CRLF2}${body ?? ''}`;
}
