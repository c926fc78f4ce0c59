import type { Clock } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { eventKey, groupsOf, type ObservationEvent } from './observation-event.ts';

/** Keeps the entry of a batch in the queue until all its held events are sent. */
export type BatchHold = {
  readonly batch: SealedBatch;
  /** Held events that are not sent yet. */
  left: number;
  /** Ends the hold: without an error the batch leaves the queue. */
  settle(error?: unknown): void;
};

type HeldEvent = ObservationEvent & { readonly hold: BatchHold; readonly bytes: number };
type OpenSpan = { readonly events: HeldEvent[]; readonly dueAt: number };

/** Events of one observation that are sent as one span, and those among them that were held. */
export type ReadySpan = {
  readonly events: readonly ObservationEvent[];
  readonly held: readonly HeldEvent[];
};

/** The most events and bytes of payload that are held; above this, the oldest are sent early. */
export const MAX_HELD_EVENTS = 4096;
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** While the queue is short of room, a quarter of the held spans is sent at a time. */
const EARLY_SHARE = 1 / 4;
const PRESSED_INTERVAL_MS = 100;

/**
 * Starts that wait for their finish. They are copies: each start stays in the queue, on disk, until it is
 * sent, so that the next process finds it there after a crash.
 */
export class OpenSpans {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #onDue: () => void;
  /** Whether the queue needs the room of held batches. */
  readonly #isPressed: () => boolean;
  /** By observation, in the order of their first events. */
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

  /** Returns the spans to send now, and holds all other events; `hold.left` counts them. */
  take(events: readonly ObservationEvent[], hold: BatchHold): ReadySpan[] {
    const ready: ReadySpan[] = [];
    for (const [key, group] of groupsOf(events)) {
      const hasEnded = group.some(({ observation }) => observation.ended);
      const isOverdue = hold.batch.receivedAt + this.#timeoutMs <= this.#clock.now();
      if (hasEnded || isOverdue) {
        const held = this.#remove(key);
        ready.push({ events: [...held, ...group], held });
      } else {
        this.#keep(key, group, hold);
      }
    }
    return ready;
  }

  /** The spans whose timeout has passed, and the oldest ones above the limits. */
  due(): ReadySpan[] {
    const now = this.#clock.now();
    const ready: ReadySpan[] = [];
    // Sent spans make room with a delay, so only a share is sent at a time.
    const early = this.#isPressed() ? Math.ceil(this.#open.size * EARLY_SHARE) : 0;
    for (const [key, { dueAt }] of this.#open) {
      if (dueAt > now && !this.#isOverLimit() && ready.length >= early) continue;
      const held = this.#remove(key);
      ready.push({ events: held, held });
    }
    this.#schedule();
    return ready;
  }

  /** The span was sent, or (with an error) never will be. */
  settle({ held }: ReadySpan, error?: unknown): void {
    for (const { hold } of held) {
      hold.left--;
      if (error !== undefined || hold.left === 0) {
        hold.settle(error);
      }
    }
  }

  /** The span could not be sent: its held events wait again until their timeout. */
  restore({ held }: ReadySpan): void {
    for (const event of held) {
      const key = eventKey(event);
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

  /** Drops all held events, which the queue still has. */
  clear(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
    this.#open.clear();
    this.#count = 0;
    this.#bytes = 0;
  }

  #dueAt({ batch }: BatchHold): number {
    return batch.receivedAt + this.#timeoutMs;
  }

  #keep(key: string, events: readonly ObservationEvent[], hold: BatchHold): void {
    const held = events.map((event) => ({ ...event, hold, bytes: bytesOf(event) }));
    hold.left += held.length;
    this.#count += held.length;
    for (const { bytes } of held) this.#bytes += bytes;
    const open = this.#open.get(key);
    if (open === undefined) this.#open.set(key, { events: held, dueAt: this.#dueAt(hold) });
    else open.events.push(...held);
    if (this.#isOverLimit()) this.#scheduleAt(this.#clock.now());
    else if (this.#isPressed()) this.#scheduleAt(this.#clock.now() + PRESSED_INTERVAL_MS);
    else this.#scheduleAt(this.#dueAt(hold));
  }

  #isOverLimit(): boolean {
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

/** Approximate memory of an event. */
function bytesOf({ payload }: ObservationEvent): number {
  let bytes = 512;
  for (const text of Object.values(payload)) bytes += text.length * 2;
  return bytes;
}
