import type { Clock } from '../component/component.ts';
import type { Limits } from './contract.ts';

const DAY_MS = 86_400_000;

/** For erasures, which find expired traces too as long as their rows are stored. */
export const WITHOUT_RETENTION: Pick<Retention, 'since'> = { since: () => Number.MIN_SAFE_INTEGER };

/**
 * The retention of each project, kept in memory, so that readers never see expired traces that are not removed
 * yet.
 */
export class Retention {
  readonly #clock: Clock;
  #planDays: number | null = null;
  readonly #ownDays = new Map<string, number>();
  readonly #deleted = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  onPlan(limits: Limits): void {
    this.#planDays = limits.retentionDays;
  }

  setOwn(projectId: string, days: number | null): void {
    if (days === null) this.#ownDays.delete(projectId);
    else this.#ownDays.set(projectId, days);
  }

  markDeleted(projectId: string): void {
    this.#deleted.add(projectId);
    this.#ownDays.delete(projectId);
  }

  forgetDeleted(projectId: string): void {
    this.#deleted.delete(projectId);
  }

  isDeleted(projectId: string): boolean {
    return this.#deleted.has(projectId);
  }

  /** The retention in force: the shorter of the project's own and the plan's. */
  daysOf(projectId: string): number | null {
    const own = this.#ownDays.get(projectId) ?? null;
    if (own === null || this.#planDays === null) return own ?? this.#planDays;
    return Math.min(own, this.#planDays);
  }

  get planDays(): number | null {
    return this.#planDays;
  }

  /** Readers see no data older than this, in milliseconds since the epoch; no data at all of a deleted project. */
  since(projectId: string): number {
    if (this.#deleted.has(projectId)) return Number.MAX_SAFE_INTEGER;
    return this.cutoff(this.daysOf(projectId));
  }

  cutoff(days: number | null): number {
    return days === null ? Number.MIN_SAFE_INTEGER : this.#clock.now() - days * DAY_MS;
  }
}
