import type { Clock } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { groupsOf, keyOf, type ObservationEvent } from './event.ts';

/** A batch whose entry stays in the queue until each of these events has left. */
export type Hold = {
  readonly batch: SealedBatch;
  /** Events that still wait. */
  left: number;
  settle(error?: unknown): void;
};

type HeldEvent = ObservationEvent & { readonly hold: Hold; readonly bytes: number };
type OpenSpan = { readonly events: HeldEvent[]; readonly dueAt: number };

/** Events of one observation that leave as one span, and what is to be told of it. */
export type Ready = {
  readonly events: readonly ObservationEvent[];
  readonly held: readonly HeldEvent[];
};

/** What is held at most, in events and bytes of payload; beyond, the oldest leave early. */
export const MAX_HELD_EVENTS = 4096;
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** While the queue is short of room, one of so many of the oldest leaves at a time. */
const EARLY_PART = 4;
const PRESSED_INTERVAL_MS = 100;

/**
 * Starts that wait for their finish. The memory of them is only that: each stays in the queue, on disk,
 * until it has left, so that a process that dies finds them there again.
 */
export class OpenSpans {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onDue: () => void;
  /** Whether the queue needs the room that held batches take. */
  readonly #isPressed: () => boolean;
  /** In order of their first event's arrival. */
  readonly #open = new Map<string, OpenSpan>();
  #count = 0;
  #bytes = 0;
  #cancelTimer: (() => void) | undefined;
  #timerAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, timeoutMs: number, onDue: () => void, isPressed: () => boolean) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#onDue = onDue;
    this.#isPressed = isPressed;
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Sorts the events of a batch into what leaves now and what waits. What waits is held under `hold`,
   * whose `left` tells how many there are.
   */
  take(events: readonly ObservationEvent[], hold: Hold): Ready[] {
    const ready: Ready[] = [];
    for (const [key, group] of groupsOf(events)) {
      const isOver = group.some(({ observation }) => observation.ended);
      const isLate = hold.batch.receivedAt + this.#timeoutMs <= this.#clock.now();
      if (isOver || isLate) {
        const held = this.#remove(key);
        ready.push({ events: [...held, ...group], held });
      } else {
        this.#keep(key, group, hold);
      }
    }
    return ready;
  }

  /** What has waited for too long, and the oldest of what is too much. */
  due(): Ready[] {
    const now = this.#clock.now();
    const ready: Ready[] = [];
    // What leaves takes a while to make room: a part of it at a time.
    const early = this.#isPressed() ? Math.ceil(this.#open.size / EARLY_PART) : 0;
    for (const [key, { dueAt }] of this.#open) {
      if (dueAt > now && !this.#isTooMuch() && ready.length >= early) continue;
      const held = this.#remove(key);
      ready.push({ events: held, held });
    }
    this.#schedule();
    return ready;
  }

  /** They left, or (with an error) never will. */
  settle({ held }: Ready, error?: unknown): void {
    for (const { hold } of held) {
      hold.left--;
      if (error !== undefined || hold.left === 0) {
        hold.settle(error);
      }
    }
  }

  /** They could not leave: they wait again, until their time is up. */
  restore({ held }: Ready): void {
    for (const event of held) {
      const key = keyOf(event);
      const open = this.#open.get(key);
      if (open === undefined) {
        this.#open.set(key, { events: [event], dueAt: this.#dueAt(event.hold) });
      } else {
        open.events.push(event);
      }
      this.#count++;
      this.#bytes += event.bytes;
    }
    this.#schedule();
  }

  /** Forgets everything: the queue still has it. */
  clear(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#open.clear();
    this.#count = 0;
    this.#bytes = 0;
  }

  #dueAt({ batch }: Hold): number {
    return batch.receivedAt + this.#timeoutMs;
  }

  #keep(key: string, events: readonly ObservationEvent[], hold: Hold): void {
    const held = events.map((event) => ({ ...event, hold, bytes: bytesOf(event) }));
    hold.left += held.length;
    this.#count += held.length;
    for (const { bytes } of held) this.#bytes += bytes;
    const open = this.#open.get(key);
    if (open === undefined) this.#open.set(key, { events: held, dueAt: this.#dueAt(hold) });
    else open.events.push(...held);
    if (this.#isTooMuch()) this.#scheduleAt(this.#clock.now());
    else if (this.#isPressed()) this.#scheduleAt(this.#clock.now() + PRESSED_INTERVAL_MS);
    else this.#scheduleAt(this.#dueAt(hold));
  }

  #isTooMuch(): boolean {
    return this.#bytes > MAX_HELD_BYTES || this.#count > MAX_HELD_EVENTS;
  }

  #remove(key: string): readonly HeldEvent[] {
    const open = this.#open.get(key);
    if (open === undefined) return [];
    this.#open.delete(key);
    this.#count -= open.events.length;
    for (const { bytes } of open.events) this.#bytes -= bytes;
    return open.events;
  }

  #schedule(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of this.#open.values()) next = Math.min(next, dueAt);
    if (next !== Number.POSITIVE_INFINITY) this.#scheduleAt(next);
  }

  #scheduleAt(at: number): void {
    if (at >= this.#timerAt) return;
    this.#cancelTimer?.();
    this.#timerAt = at;
    this.#cancelTimer = this.#clock.after(Math.max(0, at - this.#clock.now()), () => {
      this.#cancelTimer = undefined;
      this.#timerAt = Number.POSITIVE_INFINITY;
      this.#onDue();
    });
  }
}

function bytesOf({ payload }: ObservationEvent): number {
  let bytes = 512;
  for (const text of Object.values(payload)) bytes += text.length * 2;
  return bytes;
}
