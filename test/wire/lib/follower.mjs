// SPDX-License-Identifier: MIT
// Follows the event stream as a browser does: whenever it ends, for whatever reason, it is opened
// again with the last id that was seen. So it must see every event once.
import { Stream } from './stream.mjs';

export class Follower {
  /** `h`: the House; more: as Stream, and onEvent(event, ms), ms as performance.now(). */
  constructor(h, more = {}) {
    this.h = h;
    this.more = more;
    this.events = [];
    this.opened = 0;
    this.lastId = more.id ?? 0;
    this.open();
  }

  async open() {
    while (!this.closed) {
      const s = new Stream(this.h, { ...this.more, id: this.lastId });
      this.stream = s;
      this.opened++;
      s.events.push = (event) => this.event(event);
      await s.over;
      this.lastId = Number(s.lastId);
      await this.h.isUp?.(); // a daemon that was killed: not before it is back
    }
  }

  event(event) {
    if (event.type === 'shutdown') return;
    this.events.push(event);
    this.more.onEvent?.(event, performance.now());
  }

  get last() {
    return Number(this.stream.lastId);
  }

  close() {
    this.closed = true;
    this.stream.close();
  }
}
