import type { Clock } from '../../component/component.ts';
import type { PendingRow } from './operations.ts';

/** An entry without its body, as a branch's line holds it. */
export type Waiting = {
  readonly seq: number;
  readonly items: number;
  readonly bytes: number;
  readonly receivedAt: number;
  readonly attempts: number;
};

/** Entries held in memory ahead of the consumer; those behind them are on disk alone. */
const WINDOW = 4096;

/**
 * The order in which one branch gets its entries:
 *
 *   again (given back, due)  ─┐
 *   window (read ahead)      ─┴─▶ take, lowest seq first ─▶ leased ─▶ ended, or later ─(due)─▶ again
 *   disk (seq above `cursor`) ─▶ window, page by page
 *
 * Every waiting entry with `seq <= cursor` is in memory: in one of again, window, leased, later.
 */
export class BranchLine {
  readonly branch: string;
  readonly number: number;
  readonly leased = new Map<number, Waiting>();
  /** Ended here, and on its way to be ended on disk. */
  readonly ending = new Set<number>();
  /** Waiting or leased. */
  entries: number;
  items: number;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  readonly #later = new Map<number, { entry: Waiting; cancel: () => void }>();
  #again: Waiting[] = [];
  #window: Waiting[] = [];
  #head = 0;
  /** The newest entry that ever stood in the line. */
  #lastSeq: number;
  #cursor: number;
  /** Counts what changes entries above the cursor, so that a page read meanwhile is not trusted. */
  #changes = 0;
  #lastOldestAt: number | undefined;

  constructor(state: LineState, clock: Clock) {
    this.branch = state.branch;
    this.number = state.number;
    this.entries = state.entries;
    this.items = state.items;
    this.#clock = clock;
    // What was pending at the opening stands on disk, up to the last number given out.
    this.#lastSeq = state.lastSeq;
    this.#cursor = state.entries === 0 ? state.lastSeq : 0;
  }

  /** A new entry, after all that were appended before. */
  append(entry: Waiting): void {
    this.entries++;
    this.items += entry.items;
    const follows = this.#cursor === this.#lastSeq;
    this.#lastSeq = entry.seq;
    if (follows && this.#window.length - this.#head < WINDOW) {
      this.#window.push(entry);
      this.#cursor = entry.seq;
    }
    this.#announce();
  }

  /** An older entry that waits again, or here too: in memory where the line has passed it, else read later. */
  insert(entry: Waiting): void {
    // Known to another queue of the file, new to this line.
    if (entry.seq > this.#lastSeq) {
      this.append(entry);
      return;
    }
    this.entries++;
    this.items += entry.items;
    this.#changes++;
    if (entry.seq <= this.#cursor) this.#insertAgain(entry);
    this.#announce();
  }

  /** Entries stand on disk that are not in memory yet. */
  get isBehind(): boolean {
    return this.#cursor < this.#lastSeq;
  }

  /** Reads the entries that follow, `read` giving those above a number; again where they changed meanwhile. */
  async readAhead(
    limit: number,
    read: (after: number, limit: number) => Promise<readonly PendingRow[]>,
  ): Promise<void> {
    while (this.isBehind && this.peek() === undefined) {
      const changes = this.#changes;
      const lastSeq = this.#lastSeq;
      const rows = await read(this.#cursor, limit);
      if (changes !== this.#changes) continue;
      for (const row of rows) this.#load(row);
      if (rows.length < limit) this.#cursor = lastSeq;
    }
  }

  #load([seq, items, bytes, receivedAt, attempts, due]: PendingRow): void {
    this.#cursor = seq;
    const entry = { seq, items, bytes, receivedAt, attempts };
    if (due > this.#clock.now()) this.#deferUntil(entry, due);
    else this.#window.push(entry);
  }

  /** The next that is due and in memory. */
  peek(): Waiting | undefined {
    const first = this.#again[0];
    const next = this.#window[this.#head];
    if (first === undefined) return next;
    return next === undefined || first.seq < next.seq ? first : next;
  }

  /** Leases what `peek` showed. */
  take(): Waiting | undefined {
    const entry = this.peek();
    if (entry === undefined) return undefined;
    if (entry === this.#again[0]) this.#again.shift();
    else this.#advance();
    this.leased.set(entry.seq, entry);
    return entry;
  }

  #advance(): void {
    this.#head++;
    if (this.#head < 1024 && this.#head < this.#window.length) return;
    this.#window = this.#window.slice(this.#head);
    this.#head = 0;
  }

  /** Ends a lease: back in the line, at once or when due. */
  giveBack(entry: Waiting, due: number): void {
    this.leased.delete(entry.seq);
    if (due > this.#clock.now()) {
      this.#deferUntil(entry, due);
      return;
    }
    this.#insertAgain(entry);
    this.#announce();
  }

  #deferUntil(entry: Waiting, due: number): void {
    const cancel = this.#clock.after(due - this.#clock.now(), () => {
      this.#later.delete(entry.seq);
      this.#insertAgain(entry);
      this.#announce();
    });
    this.#later.set(entry.seq, { entry, cancel });
  }

  #insertAgain(entry: Waiting): void {
    let at = this.#again.length;
    while (at > 0 && (this.#again[at - 1]?.seq ?? 0) > entry.seq) at--;
    this.#again.splice(at, 0, entry);
  }

  /** The entry waits here no more, wherever it stood. */
  remove(seq: number, items: number): void {
    this.entries--;
    this.items -= items;
    if (this.leased.delete(seq)) return;
    this.#changes++;
    this.#later.get(seq)?.cancel();
    this.#later.delete(seq);
    this.#again = this.#again.filter((entry) => entry.seq !== seq);
    this.#window = this.#window.slice(this.#head).filter((entry) => entry.seq !== seq);
    this.#head = 0;
  }

  /** When the oldest entry was received; while the next page is not read, as it was last known. */
  oldestAt(): number | undefined {
    if (this.entries === 0) return undefined;
    let oldest = this.peek();
    const older = (entry: Waiting): void => {
      if (oldest === undefined || entry.seq < oldest.seq) oldest = entry;
    };
    for (const entry of this.leased.values()) older(entry);
    for (const { entry } of this.#later.values()) older(entry);
    this.#lastOldestAt = oldest?.receivedAt ?? this.#lastOldestAt;
    return this.#lastOldestAt;
  }

  onAvailable(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #announce(): void {
    for (const listener of this.#listeners) listener();
  }

  close(): void {
    this.#listeners.clear();
    for (const { cancel } of this.#later.values()) cancel();
    this.#later.clear();
  }
}

export type LineState = {
  readonly branch: string;
  readonly number: number;
  readonly entries: number;
  readonly items: number;
  /** The last number given out in the file. */
  readonly lastSeq: number;
};
