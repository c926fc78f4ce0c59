import type { QueueEntry } from '../../../src/queue/queue.ts';
import type { QueueCounts } from './counts.ts';

/** A leased entry without its body. */
export type Leased = {
  readonly seq: number;
  readonly batchId: string;
  readonly projectId: string;
  readonly receivedAt: number;
  readonly items: number;
  readonly bytes: number;
  readonly attempts: number;
};

/** The columns of `queue_entries` that a lease needs. */
export type LeasedRow = {
  readonly seq: number;
  readonly batch_id: string;
  readonly project: string;
  readonly received_at: number;
  readonly items: number;
  readonly bytes: number;
  readonly attempts: number;
};

export function leasedOf(row: LeasedRow): Leased {
  const { seq, batch_id: batchId, project: projectId, received_at: receivedAt } = row;
  const { items, bytes, attempts } = row;
  return { seq, batchId, projectId, receivedAt, items, bytes, attempts };
}

/** Names the lease of an entry. */
export type LeaseName = Pick<Leased, 'seq' | 'batchId'>;

export function leaseOf({ seq, batch }: QueueEntry): LeaseName {
  return { seq, batchId: batch.id };
}

/** The leases of this process in one queue, by branch and `seq`. */
export class HeldLeases {
  readonly #counts: QueueCounts;
  readonly #byBranch = new Map<string, Map<number, Leased>>();
  /** Leases whose end is not in the database yet, by `seq`. */
  readonly #ending = new Set<number>();

  constructor(counts: QueueCounts) {
    this.#counts = counts;
  }

  add(branch: string, leased: Leased): void {
    const held = this.#byBranch.get(branch) ?? new Map<number, Leased>();
    this.#byBranch.set(branch, held.set(leased.seq, leased));
    this.#counts.of(branch).leased++;
  }

  /** A server that took over without the last writes of the former one may give another batch the same `seq`. */
  find(branch: string, { seq, batchId }: LeaseName): Leased | undefined {
    const leased = this.#byBranch.get(branch)?.get(seq);
    return leased?.batchId === batchId ? leased : undefined;
  }

  remove(branch: string, wanted: LeaseName): Leased | undefined {
    const leased = this.find(branch, wanted);
    if (leased === undefined) return undefined;
    this.#byBranch.get(branch)?.delete(wanted.seq);
    const counts = this.#counts.of(branch);
    counts.leased = Math.max(0, counts.leased - 1);
    return leased;
  }

  /** Another process has released all leases. */
  lose(): void {
    for (const [branch, held] of this.#byBranch) {
      const counts = this.#counts.of(branch);
      counts.leased = Math.max(0, counts.leased - held.size);
    }
    this.#byBranch.clear();
  }

  /** `has` still finds the lease while `write` is in flight. */
  async untilWritten<T>({ seq }: Leased, write: () => Promise<T>): Promise<T> {
    this.#ending.add(seq);
    try {
      return await write();
    } finally {
      this.#ending.delete(seq);
    }
  }

  /** Whether this process holds the lease or is about to end it. */
  has(branch: string, seq: number): boolean {
    return this.#ending.has(seq) || this.#byBranch.get(branch)?.has(seq) === true;
  }
}
