import type { Clock } from '../../component/component.ts';
import type { PendingRow } from './entry-operations.ts';

/** An entry without its body, as a branch's line holds it. */
export type LineEntry = {
  readonly seq: number;
  readonly items: number;
  readonly bytes: number;
  readonly receivedAt: number;
  readonly attempts: number;
};

/** Entries in memory ahead of the consumer; the entries behind them are on disk only. */
const WINDOW = 4096;

/**
 * The order in which one branch gets its entries:
 *
 *   retry (returned, due)    ─┐
 *   window (read ahead)      ─┴─▶ take, lowest seq first ─▶ leased ─▶ ended, or later ─(due)─▶ retry
 *   disk (seq above `cursor`) ─▶ window, page by page
 *
 * Every waiting entry with `seq <= cursor` is in memory: in one of retry, window, leased, later.
 */
export class BranchLine {
  readonly branch: string;
  readonly number: number;
  readonly leased = new Map<number, LineEntry>();
  /** Entries whose lease has ended, and whose end is not on disk yet. */
  readonly ending = new Set<number>();
  /** Waiting or leased. */
  entries: number;
  items: number;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  readonly #later = new Map<number, { entry: LineEntry; cancel: () => void }>();
  #retry: LineEntry[] = [];
  #window: LineEntry[] = [];
  #head = 0;
  /** The newest entry that was ever in the line. */
  #lastSeq: number;
  #cursor: number;
  /** Counts changes of entries above the cursor: a page that was read before a change is read again. */
  #changes = 0;
  #lastOldestAt: number | undefined;

  constructor(state: LineState, clock: Clock) {
    this.branch = state.branch;
    this.number = state.number;
    this.entries = state.entries;
    this.items = state.items;
    this.#clock = clock;
    // The entries that wait at the opening are on disk, up to the last number given out.
    this.#lastSeq = state.lastSeq;
    this.#cursor = state.entries === 0 ? state.lastSeq : 0;
  }

  /** Adds a new entry, with a higher number than all others. */
  append(entry: LineEntry): void {
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

  /**
   * Adds an older entry, after a replay or because it now waits in this branch too. It goes to memory if the cursor
   * has passed it; else a page read finds it.
   */
  insert(entry: LineEntry): void {
    // Another queue of the file appended it; it is new to this line.
    if (entry.seq > this.#lastSeq) {
      this.append(entry);
      return;
    }
    this.entries++;
    this.items += entry.items;
    this.#changes++;
    if (entry.seq <= this.#cursor) this.#insertRetry(entry);
    this.#announce();
  }

  /** Whether entries are on disk that are not in memory yet. */
  get isBehind(): boolean {
    return this.#cursor < this.#lastSeq;
  }

  /** Reads the next entries; `read` returns those above a number. Reads again if entries changed during a read. */
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

  /** The next entry that is due and in memory. */
  peek(): LineEntry | undefined {
    const first = this.#retry[0];
    const next = this.#window[this.#head];
    if (first === undefined) return next;
    return next === undefined || first.seq < next.seq ? first : next;
  }

  /** Leases the entry that `peek` returns. */
  take(): LineEntry | undefined {
    const entry = this.peek();
    if (entry === undefined) return undefined;
    if (entry === this.#retry[0]) this.#retry.shift();
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

  /** Ends a lease: the entry waits again, at once or when due. */
  release(entry: LineEntry, due: number): void {
    this.leased.delete(entry.seq);
    if (due > this.#clock.now()) {
      this.#deferUntil(entry, due);
      return;
    }
    this.#insertRetry(entry);
    this.#announce();
  }

  #deferUntil(entry: LineEntry, due: number): void {
    const cancel = this.#clock.after(due - this.#clock.now(), () => {
      this.#later.delete(entry.seq);
      this.#insertRetry(entry);
      this.#announce();
    });
    this.#later.set(entry.seq, { entry, cancel });
  }

  #insertRetry(entry: LineEntry): void {
    let at = this.#retry.length;
    while (at > 0 && (this.#retry[at - 1]?.seq ?? 0) > entry.seq) at--;
    this.#retry.splice(at, 0, entry);
  }

  /** Removes the entry from the line, leased or waiting. */
  remove(seq: number, items: number): void {
    this.entries--;
    this.items -= items;
    if (this.leased.delete(seq)) return;
    this.#changes++;
    this.#later.get(seq)?.cancel();
    this.#later.delete(seq);
    this.#retry = this.#retry.filter((entry) => entry.seq !== seq);
    this.#window = this.#window.slice(this.#head).filter((entry) => entry.seq !== seq);
    this.#head = 0;
  }

  /** When the oldest entry was received; the last known time while the next page is not in memory. */
  oldestAt(): number | undefined {
    if (this.entries === 0) return undefined;
    let oldest = this.peek();
    const older = (entry: LineEntry): void => {
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
  /** The highest number given out in the file. */
  readonly lastSeq: number;
};
