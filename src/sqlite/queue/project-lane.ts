import type { LineEntry } from './branch-line.ts';

/** The waiting entries of one project in one branch: the oldest in memory, the others on disk only. */
export class ProjectLane {
  readonly project: string;
  /** Due entries in memory, lowest number first. */
  readonly waiting: LineEntry[] = [];
  /** Entries in delivery. */
  leased = 0;
  /** Entries with this number or a higher one may be on disk only; undefined if all are in memory. */
  diskFrom: number | undefined;
  /** When the last entry that was taken was received: later ones of the lane are newer. */
  #takenAt = 0;

  constructor(project: string) {
    this.project = project;
  }

  /** Whether the next entry of the project is on disk only. */
  get needsRead(): boolean {
    return this.diskFrom !== undefined && this.waiting.length === 0;
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0 && this.diskFrom === undefined && this.leased === 0;
  }

  /** Whether no entry before this one is on disk only. */
  isNext(seq: number): boolean {
    return this.diskFrom === undefined || seq < this.diskFrom;
  }

  add(entry: LineEntry): void {
    let at = this.waiting.length;
    while (at > 0 && (this.waiting[at - 1]?.seq ?? 0) > entry.seq) at--;
    this.waiting.splice(at, 0, entry);
  }

  take(): LineEntry | undefined {
    const entry = this.waiting.shift();
    if (entry !== undefined) this.#takenAt = Math.max(this.#takenAt, entry.receivedAt);
    return entry;
  }

  /** When the oldest entry without an attempt was received, or a time before that; undefined if there is none. */
  get untriedAt(): number | undefined {
    const untried = this.waiting.find(({ attempts }) => attempts === 0);
    return untried?.receivedAt ?? (this.diskFrom === undefined ? undefined : this.#takenAt);
  }

  /** Notes an entry that is not in memory. */
  leaveOnDisk(seq: number): void {
    this.diskFrom = Math.min(this.diskFrom ?? seq, seq);
  }

  replace(seq: number, change: (entry: LineEntry) => LineEntry): void {
    const at = this.waiting.findIndex((entry) => entry.seq === seq);
    const entry = this.waiting[at];
    if (entry !== undefined) this.waiting[at] = change(entry);
  }

  /** Removes a waiting entry; returns whether it was in memory. */
  remove(seq: number): boolean {
    const at = this.waiting.findIndex((entry) => entry.seq === seq);
    if (at < 0) return false;
    this.waiting.splice(at, 1);
    return true;
  }
}
