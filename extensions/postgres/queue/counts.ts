import type { QueueStats } from '../../../src/queue/queue.ts';
import type { StoreDatabase } from '../database.ts';

/** What waits in one branch, as it is known here. */
export type BranchCounts = {
  entries: number;
  items: number;
  leased: number;
  oldestAt: number | undefined;
};

/**
 * Counts of one queue: what this process does changes them at once, what others do is read now and then.
 * Reading costs with what waits, so it is done the more seldom the longer it takes.
 */
export class QueueCounts {
  readonly branches = new Map<string, BranchCounts>();
  bytes = 0;
  deadLetters = 0;
  deadLetterItems = 0;
  quarantined = 0;
  readonly #database: StoreDatabase;
  readonly #queue: string;
  /** Counts the changes, so that what was read before one is not taken for what is. */
  #changes = 0;

  constructor(database: StoreDatabase, queue: string) {
    this.#database = database;
    this.#queue = queue;
  }

  of(branch: string): BranchCounts {
    let counts = this.branches.get(branch);
    if (counts === undefined) {
      counts = { entries: 0, items: 0, leased: 0, oldestAt: undefined };
      this.branches.set(branch, counts);
    }
    return counts;
  }

  entered(branch: string, items: number, receivedAt: number): void {
    this.#changes++;
    const counts = this.of(branch);
    counts.entries++;
    counts.items += items;
    counts.oldestAt = Math.min(counts.oldestAt ?? receivedAt, receivedAt);
  }

  left(branch: string, items: number, oldestAt: number | undefined): void {
    this.#changes++;
    const counts = this.of(branch);
    counts.entries = Math.max(0, counts.entries - 1);
    counts.items = Math.max(0, counts.items - items);
    counts.oldestAt = oldestAt;
  }

  changeBytes(by: number): void {
    this.#changes++;
    this.bytes = Math.max(0, this.bytes + by);
  }

  changeDead(letters: number, items: number): void {
    this.#changes++;
    this.deadLetters = Math.max(0, this.deadLetters + letters);
    this.deadLetterItems = Math.max(0, this.deadLetterItems + items);
  }

  /** Reads what is there. What changed here meanwhile makes it worthless, unless it always does. */
  async refresh(): Promise<void> {
    for (let left = 3; left > 0; left--) {
      const changes = this.#changes;
      const [branches, sums] = await Promise.all([
        this.#database.query(BRANCHES, [this.#queue]),
        this.#database.query(SUMS, [this.#queue]),
      ]);
      if (changes !== this.#changes && left > 1) continue;
      for (const row of branches.rows) {
        const counts = this.of(String(row.branch));
        counts.entries = Number(row.entries);
        counts.items = Number(row.items);
        counts.leased = Number(row.leased);
        counts.oldestAt = row.oldest === null ? undefined : Number(row.oldest);
      }
      const [sum] = sums.rows;
      this.bytes = Number(sum?.bytes);
      this.deadLetters = Number(sum?.letters);
      this.deadLetterItems = Number(sum?.dead_items);
      this.quarantined = Number(sum?.quarantined);
      return;
    }
  }

  stats(configured: readonly string[], maxBytes: number): QueueStats {
    const shown = [...this.branches].filter(
      ([branch, { entries }]) => configured.includes(branch) || entries > 0,
    );
    return {
      branches: shown.map(([branch, counts]) => ({ branch, ...counts })),
      bytes: this.bytes,
      maxBytes,
      deadLetters: this.deadLetters,
      deadLetterItems: this.deadLetterItems,
      quarantined: this.quarantined,
    };
  }
}

const BRANCHES = `
  SELECT b.branch, count(e.seq) AS entries, coalesce(sum(e.items), 0) AS items,
    count(e.holder) AS leased, min(e.received_at) AS oldest
  FROM queue_branches b LEFT JOIN queue_entries e ON e.branch = b.id
  WHERE b.queue = $1 GROUP BY b.id ORDER BY b.id`;

/** A queue's bytes are also those of the queues that bear its name and go on with a slash. */
const SUMS = `
  SELECT
    (SELECT coalesce(sum(bytes), 0) FROM (
       SELECT max(e.bytes) AS bytes FROM queue_entries e JOIN queue_branches b ON b.id = e.branch
       WHERE b.queue = $1 OR starts_with(b.queue, $1 || '/') GROUP BY e.batch_id) sizes) AS bytes,
    d.letters, d.dead_items,
    (SELECT count(*) FROM queue_quarantined WHERE queue = $1) AS quarantined
  FROM (
    SELECT count(d.id) AS letters, coalesce(sum(d.items), 0) AS dead_items
    FROM queue_dead_letters d JOIN queue_branches b ON b.id = d.branch WHERE b.queue = $1) d`;
