import type { ClockLook } from '../../src/component/clock-jump.ts';
import { jumpBetween, lookAt } from '../../src/component/clock-jump.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';

/** A jump that no clock makes which a time service keeps. */
const MOST_JUMP_MS = 3_600_000;
/** A pause of the service, or of the machine, that needs no explanation. */
const MOST_PAUSE_MS = 24 * 3_600_000;
/** A time service sets a wrong clock well within it, so a clock that nothing has set for so long counts as right. */
const SETTLED_MS = 3_600_000;

/** The uptime of a machine until which its clock may have the time of its last shutdown, or of a constant. */
const BOOT_MS = 3_600_000;

/** `at`: the last time at which the clock counted as right. `waitedMs`: for how long starts with a clock far from it have waited since. */
export type KnownTime = { readonly at: number; readonly waitedMs: number };

/** Unhealthy if it lasts until an operator sets the clock or restarts the daemon. */
export type ClockTrouble = Required<Pick<ComponentHealth, 'healthy' | 'message'>>;

/**
 * Knows whether the date by which traces expire can be right. Answers to requests expire by `SteadyTime`, which needs no right date. A clock
 * that is ahead would remove data that nothing brings back, and the file has no second clock to compare with. Two times bear it out: the one
 * that the store last knew, and the uptime of the machine.
 *
 *   start, up to a day behind the known time ─────────────────────────▶ settled ─(ahead of the machine)─▶ held
 *   start, further from it ─▶ held if ahead ─(an hour without a jump)─▶ settled ◀────(agrees again)─────────┘
 *
 * A machine without a clock that runs while it is off begins with an old time, and a time service sets it after the first processes have
 * started. So a jump in the first hour of the machine counts as a start at the new time.
 */
export class ClockWatch {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** The time that the store knew at the start; undefined for a new store. */
  #known: KnownTime | undefined;
  /** A look at which the clock counted as right. */
  #base: ClockLook;
  /** Until this uptime the clock does not explain itself; undefined since. */
  #settlesAt: number | undefined;
  #aheadMs = 0;

  constructor(clock: Clock, logger: Logger, known: KnownTime | undefined) {
    this.#clock = clock;
    this.#logger = logger;
    this.#known = known;
    this.#base = lookAt(clock);
    this.#begin();
  }

  #begin(): void {
    if (this.#known === undefined || this.#agreesWithKnown(this.#base.now)) return;
    this.#settlesAt = this.#base.uptime + SETTLED_MS - this.#known.waitedMs;
  }

  /** Whether the present time is one by which data may expire. Callers ask right before each use of the time. */
  isRight(): boolean {
    this.#takeTimeOfBoot();
    const aheadMs = this.#isSettled() ? this.#jumpedBy() : this.#aheadOfKnown();
    if (aheadMs > 0 && this.#aheadMs === 0) {
      this.#logger.warn({ aheadMs }, 'Clock is ahead; no data expires');
    } else if (aheadMs === 0 && this.#aheadMs > 0) {
      this.#logger.info({}, 'Clock counts as right; data expires again');
    }
    this.#aheadMs = aheadMs;
    return aheadMs === 0;
  }

  /**
   * The time that the store keeps for the next start; undefined if it keeps the one that it has. A machine that is never on for an hour
   * adds up the times for which it is on.
   */
  known(): KnownTime | undefined {
    const isRight = this.isRight();
    if (this.#settlesAt === undefined) {
      return isRight ? { at: this.#clock.now(), waitedMs: 0 } : undefined;
    }
    const leftMs = this.#settlesAt - this.#clock.uptime();
    return this.#known && { at: this.#known.at, waitedMs: SETTLED_MS - leftMs };
  }

  /** Whether the clock counted as right since the start. */
  get hasSettled(): boolean {
    return this.#settlesAt === undefined;
  }

  get trouble(): ClockTrouble | undefined {
    if (this.#aheadMs === 0) return undefined;
    const hours = Math.round(this.#aheadMs / 3_600_000);
    if (this.#settlesAt !== undefined) {
      const message = `The clock is ${hours} hours ahead of the last time that the store knows: for an hour after a start no data expires.`;
      return { healthy: true, message };
    }
    const message = `The clock was set ${hours} hours ahead: no data expires until it is right. If it is right now, restart the daemon.`;
    return { healthy: false, message };
  }

  #agreesWithKnown(now: number): boolean {
    if (this.#known === undefined) return true;
    const { at } = this.#known;
    return now >= at - MOST_JUMP_MS && now <= at + MOST_PAUSE_MS;
  }

  #takeTimeOfBoot(): void {
    if (this.#settlesAt !== undefined || this.#clock.uptime() >= BOOT_MS) return;
    if (this.#jumpedBy() === 0) return;
    this.#known = { at: this.#known?.at ?? this.#base.now, waitedMs: 0 };
    this.#base = lookAt(this.#clock);
    this.#begin();
  }

  /** A clock that jumps before it is settled is being set: the hour begins again. */
  #isSettled(): boolean {
    if (this.#settlesAt === undefined) return true;
    const look = lookAt(this.#clock);
    const jumpMs = jumpBetween(this.#base, look);
    this.#base = look;
    if (this.#agreesWithKnown(look.now)) this.#settlesAt = undefined;
    else if (Math.abs(jumpMs) > MOST_JUMP_MS) this.#settlesAt = look.uptime + SETTLED_MS;
    else if (look.uptime >= this.#settlesAt) this.#settlesAt = undefined;
    return this.#settlesAt === undefined;
  }

  /** A clock behind removes less, not more. */
  #aheadOfKnown(): number {
    const aheadMs = this.#clock.now() - (this.#known?.at ?? Number.MAX_SAFE_INTEGER);
    return aheadMs > MOST_PAUSE_MS ? aheadMs : 0;
  }

  /** The base never goes back, so that a clock that is set back and forth is right again at the end. */
  #jumpedBy(): number {
    const { now, uptime } = lookAt(this.#clock);
    const jumpMs = jumpBetween(this.#base, { now, uptime });
    if (jumpMs > MOST_JUMP_MS) return jumpMs;
    this.#base = { now: now - Math.min(0, jumpMs), uptime };
    return 0;
  }
}
