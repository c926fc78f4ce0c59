import type { ClockLook } from './clock-jump.ts';
import { jumpBetween } from './clock-jump.ts';
import type { Clock } from './component.ts';

/** A clock that advances by less between two looks was not set, or by nothing that matters. Milliseconds. */
const LOOK_MS = 1000;

/** A state of a `SteadyTime`, from which another process goes on. */
export type KeptTime = {
  /** A time that it had. */
  readonly at: number;
  /** By how much it was ahead of the clock then. Negative if it was behind. */
  readonly aheadMs: number;
};

/**
 * A time that cannot be set: it passes as the uptime of the machine does, so data expires when it should, however wrong the clock is. It is
 * the time of the clock until the clock is set, and ahead of it or behind it since. Only differences between its times mean something;
 * traces expire by their date, for which the store of SQLite checks the clock (`ClockWatch`).
 *
 *   clock     ──▶ 12:00 ──(set back)──▶ 11:00 ─(a minute)─▶ 11:01
 *   this time ──▶ 12:00 ──────────────▶ 12:00 ─(a minute)─▶ 12:01      aheadMs: an hour
 */
export class SteadyTime {
  readonly #clock: Clock;
  #onJump: (jumpMs: number) => void = () => undefined;
  #aheadMs = 0;
  #lastClock: number;
  #looked: ClockLook;

  /** Goes on from `kept`: the time for which no process ran counts by the clock, and is not negative. */
  constructor(clock: Clock, kept?: KeptTime) {
    this.#clock = clock;
    this.#lastClock = clock.now();
    this.#looked = { now: this.#lastClock, uptime: clock.uptime() };
    if (kept !== undefined) this.#aheadMs = Math.max(kept.aheadMs, kept.at - this.#lastClock);
  }

  /** Hot path, runs per request: reading the uptime costs 5 µs, so it is read only if the clock may have been set. */
  now(): number {
    const clock = this.#clock.now();
    const passedMs = clock - this.#lastClock;
    if (passedMs < 0 || passedMs >= LOOK_MS) this.#look(clock);
    this.#lastClock = clock;
    return clock + this.#aheadMs;
  }

  /** Calls the listener when the clock was set. */
  onJump(listener: (jumpMs: number) => void): void {
    this.#onJump = listener;
  }

  get kept(): KeptTime {
    return { at: this.now(), aheadMs: this.#aheadMs };
  }

  #look(clock: number): void {
    const look = { now: clock, uptime: this.#clock.uptime() };
    const jumpMs = Math.round(jumpBetween(this.#looked, look));
    this.#looked = look;
    if (Math.abs(jumpMs) < LOOK_MS) return;
    const last = this.#lastClock + this.#aheadMs;
    this.#aheadMs = Math.max(this.#aheadMs - jumpMs, last - clock);
    this.#onJump(jumpMs);
  }
}
