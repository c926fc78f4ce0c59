import type { QueueStats } from '../../../src/queue/queue.ts';
import { row, rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';

/** The backlog of one branch, as far as this process knows. */
export type BranchCounts = {
  entries: number;
  items: number;
  leased: number;
  oldestAt: number | undefined;
};

/**
 * Counts of one queue. Changes by this process apply at once; changes by other processes arrive with the next
 * `refresh`, whose cost grows with the backlog (storage.ts spaces it accordingly).
 */
export class QueueCounts {
  readonly branches = new Map<string, BranchCounts>();
  bytes = 0;
  deadLetters = 0;
  deadLetterItems = 0;
  quarantined = 0;
  readonly #database: StoreDatabase;
  readonly #queue: string;
  /** Number of local changes: a result read before a change would undo it. */
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

  /** Reads the counts, up to three times until no local change falls between the query and its answer. */
  async refresh(): Promise<void> {
    for (let left = 3; left > 0; left--) {
      const changes = this.#changes;
      const [branches, sums] = await Promise.all([
        rows<BranchRow>(this.#database, BRANCHES, [this.#queue]),
        row<SumsRow>(this.#database, SUMS, [this.#queue]),
      ]);
      if (changes !== this.#changes && left > 1) continue;
      for (const { branch, entries, items, leased, oldest } of branches) {
        const counts = this.of(branch);
        counts.entries = entries;
        counts.items = items;
        counts.leased = leased;
        counts.oldestAt = oldest ?? undefined;
      }
      this.bytes = sums?.bytes ?? 0;
      this.deadLetters = sums?.letters ?? 0;
      this.deadLetterItems = sums?.dead_items ?? 0;
      this.quarantined = sums?.quarantined ?? 0;
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

type BranchRow = {
  readonly branch: string;
  readonly entries: number;
  readonly items: number;
  readonly leased: number;
  readonly oldest: number | null;
};

const BRANCHES = `
  SELECT b.branch, count(e.seq) AS entries, coalesce(sum(e.items), 0) AS items,
    count(e.holder) AS leased, min(e.received_at) AS oldest
  FROM queue_branches b LEFT JOIN queue_entries e ON e.branch = b.id
  WHERE b.queue = $1 GROUP BY b.id ORDER BY b.id`;

type SumsRow = {
  readonly bytes: number;
  readonly letters: number;
  readonly dead_items: number;
  readonly quarantined: number;
};

/** The bytes include those of the queues whose name is this queue's name, a slash, and more. */
const SUMS = `
  SELECT
    (SELECT coalesce(sum(bytes), 0)::bigint FROM (
       SELECT max(e.bytes) AS bytes FROM queue_entries e JOIN queue_branches b ON b.id = e.branch
       WHERE b.queue = $1 OR starts_with(b.queue, $1 || '/') GROUP BY e.batch_id) sizes) AS bytes,
    d.letters, d.dead_items,
    (SELECT count(*) FROM queue_quarantined WHERE queue = $1) AS quarantined
  FROM (
    SELECT count(d.id) AS letters, coalesce(sum(d.items), 0) AS dead_items
    FROM queue_dead_letters d JOIN queue_branches b ON b.id = d.branch WHERE b.queue = $1) d`;
