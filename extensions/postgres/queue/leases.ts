import type { QueueCounts } from './counts.ts';
import type { Leased } from './rows.ts';

/** What this process leased of one queue, by branch and `seq`. */
export class HeldLeases {
  readonly #counts: QueueCounts;
  readonly #byBranch = new Map<string, Map<number, Leased>>();
  /** Leases that end, by `seq`: until it is written down. */
  readonly #ending = new Set<number>();

  constructor(counts: QueueCounts) {
    this.#counts = counts;
  }

  add(branch: string, leased: Leased): void {
    const held = this.#byBranch.get(branch) ?? new Map<number, Leased>();
    this.#byBranch.set(branch, held.set(leased.seq, leased));
    this.#counts.of(branch).leased++;
  }

  find(branch: string, seq: number): Leased | undefined {
    return this.#byBranch.get(branch)?.get(seq);
  }

  remove(branch: string, seq: number): Leased | undefined {
    const leased = this.find(branch, seq);
    if (leased === undefined) return undefined;
    this.#byBranch.get(branch)?.delete(seq);
    const counts = this.#counts.of(branch);
    counts.leased = Math.max(0, counts.leased - 1);
    return leased;
  }

  /** While `write` writes down that a lease ends, it is still known. */
  async untilWritten<T>({ seq }: Leased, write: () => Promise<T>): Promise<T> {
    this.#ending.add(seq);
    try {
      return await write();
    } finally {
      this.#ending.delete(seq);
    }
  }

  /** Whether this process knows of a lease, or is about to end it. */
  has(branch: string, seq: number): boolean {
    return this.#ending.has(seq) || this.find(branch, seq) !== undefined;
  }
}
