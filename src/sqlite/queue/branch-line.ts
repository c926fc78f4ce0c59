import type { Clock } from '../../component/component.ts';
import type { PendingRow } from './entry-operations.ts';
import { ProjectLane } from './project-lane.ts';

/** An entry without its body, as a branch's line holds it. */
export type LineEntry = {
  readonly seq: number;
  readonly project: string;
  readonly items: number;
  readonly bytes: number;
  readonly receivedAt: number;
  readonly attempts: number;
};

/** Waiting entries in memory, over all projects; the entries behind them are on disk only. */
const WINDOW = 16_384;
/** Waiting entries of one project in memory. */
const PROJECT_WINDOW = 1024;
/** Failures in a row behind which the exporter was away, and not one batch at fault. */
const OUTAGE_FAILURES = 3;
/**
 * An entry in the file that is due later than this was most likely released before the clock was set back. Behind a `max_interval` of more
 * than an hour it is tried earlier than it is due, once for each start.
 */
const LONGEST_WAIT_MS = 3_600_000;

/**
 * The order in which one branch gets its entries. Each project has a lane; the lanes take turns, entry by entry:
 *
 *   lane of project A: in memory, lowest seq first ◀── on disk, page by page ─┐
 *   lane of project B: …                                                      ├─▶ take ─▶ leased ─▶ ended, or later
 *   lane of project C: …                                                      ┘
 *                        ▲──────────────────────── due ─────────────────────────────────────────────────┘
 *
 * So a project waits for one entry of each other project, however many entries the others have. Every waiting entry
 * is in memory, or its number is at or above the `diskFrom` of its lane, or it is among the entries that waited at the
 * opening and were not read yet (`#unread`).
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
  readonly #later = new Map<number, { entry: LineEntry; due: number; cancel: () => void }>();
  readonly #lanes = new Map<string, ProjectLane>();
  /** Lanes with a due entry in memory, in the order of their turns. */
  readonly #ready = new Set<ProjectLane>();
  /** Lanes whose next entry is on disk only. */
  readonly #toRead = new Set<ProjectLane>();
  /** The lanes of the due entries in memory, by number. */
  readonly #inMemory = new Map<number, ProjectLane>();
  /** Of the entries that waited at the opening, the lowest number that was not read, and the highest. */
  #unread: { from: number; readonly to: number } | undefined;
  /** The newest entry that was ever in the line. */
  #lastSeq: number;
  /** Counts the older entries that came to wait: a page that was read before may lack them. */
  #insertions = 0;
  /** Entries that left the line during the read of a page, which may still have them. */
  #goneInRead: Set<number> | undefined;
  #lastOldestAt: number | undefined;
  /** Failed attempts since the last entry that left the line after one. */
  #failures = 0;
  /** Waiting counts from this time on: from the opening, a replay, or the end of an outage of the exporter. */
  #countsFrom: number;

  constructor(state: LineState, clock: Clock) {
    this.branch = state.branch;
    this.number = state.number;
    this.entries = state.entries;
    this.items = state.items;
    this.#clock = clock;
    this.#countsFrom = clock.now();
    this.#lastSeq = state.lastSeq;
    if (state.entries > 0) this.#unread = { from: 0, to: state.lastSeq };
  }

  /** Adds a new entry, with a higher number than all others. */
  append(entry: LineEntry): void {
    this.#lastSeq = entry.seq;
    this.#enter(entry);
  }

  /** Adds an older entry, after a replay or because it now waits in this branch too. */
  insert(entry: LineEntry): void {
    // Another queue of the file appended it; it is new to this line.
    if (entry.seq > this.#lastSeq) {
      this.append(entry);
      return;
    }
    this.#insertions++;
    this.#countsFrom = this.#clock.now();
    this.#enter(entry);
  }

  #enter(entry: LineEntry): void {
    this.entries++;
    this.items += entry.items;
    this.#place(entry);
    this.#announce();
  }

  /** An entry behind others of its lane that are on disk only stays there too: lanes keep their order. */
  #place(entry: LineEntry): void {
    const lane = this.#laneOf(entry.project);
    if (lane.isNext(entry.seq) && this.#hasRoom(lane)) this.#wait(lane, entry);
    else lane.leaveOnDisk(entry.seq);
    this.#settle(lane);
  }

  #hasRoom(lane: ProjectLane): boolean {
    if (lane.waiting.length === 0) return true;
    return lane.waiting.length < PROJECT_WINDOW && this.#inMemory.size < WINDOW;
  }

  #wait(lane: ProjectLane, entry: LineEntry): void {
    lane.add(entry);
    this.#inMemory.set(entry.seq, lane);
  }

  #laneOf(project: string): ProjectLane {
    let lane = this.#lanes.get(project);
    if (lane === undefined) {
      lane = new ProjectLane(project);
      this.#lanes.set(project, lane);
    }
    return lane;
  }

  /** Brings the sets of lanes up to date after a change of the lane. */
  #settle(lane: ProjectLane): void {
    if (lane.waiting.length > 0) this.#ready.add(lane);
    else this.#ready.delete(lane);
    if (lane.needsRead) this.#toRead.add(lane);
    else this.#toRead.delete(lane);
    if (lane.isEmpty) this.#lanes.delete(lane.project);
  }

  /** Whether entries on disk must be read before the next turn of their lane. */
  get isBehind(): boolean {
    return this.#unread !== undefined || this.#toRead.size > 0;
  }

  /** Whether the next entry is known only after a read: none is in memory, or the oldest of all were not read yet. */
  get waitsForRead(): boolean {
    return this.isBehind && (this.#ready.size === 0 || this.#unread?.from === 0);
  }

  /** Reads pages until an entry is due, at least one; `read` returns the entries above a number. */
  async readAhead(
    limit: number,
    read: (after: number, limit: number) => Promise<readonly PendingRow[]>,
  ): Promise<void> {
    do {
      const [lane] = this.#toRead;
      const from = this.#unread?.from ?? lane?.diskFrom;
      if (from === undefined) return;
      const [insertions, lastSeq] = [this.#insertions, this.#lastSeq];
      // An end may reach the disk, and its entry leave `ending`, before the page arrives.
      this.#goneInRead = new Set(this.ending);
      const rows = await read(from - 1, limit);
      const next = (rows.length < limit ? lastSeq : (rows.at(-1)?.[0] ?? lastSeq)) + 1;
      if (this.#unread !== undefined) this.#sort(rows, next);
      else if (lane !== undefined) this.#refill(lane, rows, next, insertions);
      this.#goneInRead = undefined;
    } while (this.waitsForRead);
    this.#announce();
  }

  /** Sorts a page of the entries that waited at the opening into the lanes. */
  #sort(rows: readonly PendingRow[], next: number): void {
    for (const row of rows) this.#load(row);
    if (this.#unread === undefined) return;
    this.#unread = next > this.#unread.to ? undefined : { ...this.#unread, from: next };
  }

  /** Loads a page from the lane's first entry on disk. Entries of other lanes in it save a read later. */
  #refill(
    lane: ProjectLane,
    rows: readonly PendingRow[],
    next: number,
    insertionsBefore: number,
  ): void {
    let left = next <= this.#lastSeq ? next : undefined;
    for (const row of rows) {
      const [seq] = row;
      const isLoaded = this.#load(row, lane);
      if (!isLoaded && row[6] === lane.project) left = Math.min(left ?? seq, seq);
    }
    // An older entry that was inserted during the read may be missing in the page: it is read again.
    if (this.#insertions === insertionsBefore) lane.diskFrom = left;
    this.#toRead.delete(lane);
    this.#settle(lane);
  }

  /** Returns false if the entry stays on disk only. `refilled` is the lane whose next entries are read. */
  #load(
    [seq, items, bytes, receivedAt, attempts, due, projectId]: PendingRow,
    refilled?: ProjectLane,
  ): boolean {
    const isKnown =
      this.#inMemory.has(seq) ||
      this.leased.has(seq) ||
      this.ending.has(seq) ||
      this.#later.has(seq) ||
      this.#goneInRead?.has(seq) === true;
    if (isKnown) return true;
    const lane = this.#laneOf(projectId);
    const entry = { seq, project: lane.project, items, bytes, receivedAt, attempts };
    const now = this.#clock.now();
    const isDue = due <= now;
    const isNext = lane === refilled || lane.isNext(seq);
    const isLoaded = !isDue || (isNext && this.#hasRoom(lane));
    if (!isDue) this.#deferUntil(entry, Math.min(due, now + LONGEST_WAIT_MS));
    else if (isLoaded) this.#wait(lane, entry);
    else lane.leaveOnDisk(seq);
    this.#settle(lane);
    return isLoaded;
  }

  /** The next entry that is due and in memory. */
  peek(): LineEntry | undefined {
    const [lane] = this.#ready;
    return lane?.waiting[0];
  }

  /** Leases the entry that `peek` returns. */
  take(): LineEntry | undefined {
    const [lane] = this.#ready;
    return lane === undefined ? undefined : this.#takeFrom(lane);
  }

  /** Leases the next entry of a project without a lease, if the entry has at most these bytes. */
  takeOfIdle(maxBytes: number): LineEntry | undefined {
    for (const lane of this.#ready) {
      const [next] = lane.waiting;
      if (lane.leased === 0 && next !== undefined && next.bytes <= maxBytes) {
        return this.#takeFrom(lane);
      }
    }
    return undefined;
  }

  #takeFrom(lane: ProjectLane): LineEntry | undefined {
    const entry = lane.take();
    if (entry === undefined) return undefined;
    this.#inMemory.delete(entry.seq);
    this.leased.set(entry.seq, entry);
    lane.leased++;
    // The lane's next turn comes after those of the others.
    this.#ready.delete(lane);
    this.#settle(lane);
    return entry;
  }

  /** Ends a lease: the entry waits again, at once or when due. */
  release(entry: LineEntry, due: number): void {
    // The entry was removed while its body was read.
    if (!this.#unlease(entry.seq)) return;
    if (due > this.#clock.now()) {
      this.#failures++;
      this.#deferUntil(entry, due);
      return;
    }
    this.#return(entry);
  }

  #unlease(seq: number): boolean {
    const entry = this.leased.get(seq);
    if (entry === undefined) return false;
    this.leased.delete(seq);
    const lane = this.#laneOf(entry.project);
    lane.leased--;
    this.#settle(lane);
    return true;
  }

  #deferUntil(entry: LineEntry, due: number): void {
    const cancel = this.#clock.after(due - this.#clock.now(), () => {
      this.#later.delete(entry.seq);
      this.#return(entry);
    });
    this.#later.set(entry.seq, { entry, due, cancel });
  }

  /** An entry that was in memory stays there: the file may not have its number of attempts yet. */
  #return(entry: LineEntry): void {
    const lane = this.#laneOf(entry.project);
    this.#wait(lane, entry);
    this.#settle(lane);
    this.#announce();
  }

  /** Removes the entry from the line, leased or waiting. */
  remove(seq: number, items: number): void {
    this.entries--;
    this.items -= items;
    this.#goneInRead?.add(seq);
    if (this.#unlease(seq)) {
      if (this.#failures >= OUTAGE_FAILURES) this.#countsFrom = this.#clock.now();
      this.#failures = 0;
      return;
    }
    this.#later.get(seq)?.cancel();
    this.#later.delete(seq);
    const lane = this.#inMemory.get(seq);
    if (lane === undefined) return;
    this.#inMemory.delete(seq);
    lane.remove(seq);
    this.#settle(lane);
  }

  /** Takes items out of a waiting entry; false if it is leased, or its end is on its way to the file. */
  shrink(seq: number, items: number): boolean {
    if (this.leased.has(seq) || this.ending.has(seq)) return false;
    this.items -= items;
    const shrunk = (entry: LineEntry): LineEntry => ({ ...entry, items: entry.items - items });
    const later = this.#later.get(seq);
    if (later !== undefined) {
      later.cancel();
      this.#deferUntil(shrunk(later.entry), later.due);
    }
    this.#inMemory.get(seq)?.replace(seq, shrunk);
    return true;
  }

  /** When the oldest entry in memory was received; the last known time while none is in memory. */
  oldestAt(): number | undefined {
    if (this.entries === 0) return undefined;
    let oldest: LineEntry | undefined;
    const older = (entry: LineEntry | undefined): void => {
      if (entry === undefined) return;
      if (oldest === undefined || entry.seq < oldest.seq) oldest = entry;
    };
    for (const { waiting } of this.#ready) older(waiting[0]);
    for (const entry of this.leased.values()) older(entry);
    for (const { entry } of this.#later.values()) older(entry);
    this.#lastOldestAt = oldest?.receivedAt ?? this.#lastOldestAt;
    return this.#lastOldestAt;
  }

  /**
   * Since when the oldest entry without an attempt waits, of a project or of all. Undefined without such an entry, and while
   * the exporter fails: a queue is there for outages. The retry of one batch does not count.
   */
  untriedSince(project?: string): number | undefined {
    if (this.#failures > 0) return undefined;
    const lanes = project === undefined ? this.#lanes.values() : [this.#lanes.get(project)];
    let since: number | undefined;
    for (const lane of lanes) {
      const at = lane?.untriedAt;
      if (at !== undefined && at < (since ?? Infinity)) since = at;
    }
    return since === undefined ? undefined : Math.max(since, this.#countsFrom);
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
