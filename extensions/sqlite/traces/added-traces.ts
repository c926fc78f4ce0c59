import type { Key } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';

/** A trace of the write in progress, whose row is not inserted yet. */
export type AddedTrace = {
  readonly n: number;
  readonly project: string;
  readonly key: Key;
  readonly longId: string | null;
  /** The time of its first event. */
  readonly at: number;
};

export class AddedTraces {
  readonly #byNumber = new Map<number, AddedTrace>();
  readonly #numbers = new Map<string, number>();
  #newest = 0;

  clear(): void {
    this.#byNumber.clear();
    this.#numbers.clear();
    this.#newest = 0;
  }

  /** Returns the number of the trace; `newest` is the highest one that has a row. */
  add(trace: Omit<AddedTrace, 'n'>, newest: number): number {
    const n = Math.max(newest, this.#newest) + 1;
    this.#newest = n;
    this.#byNumber.set(n, { ...trace, n });
    this.#numbers.set(nameOf(trace.project, trace.key), n);
    return n;
  }

  numberOf(project: string, key: Key): number | undefined {
    return this.#byNumber.size === 0 ? undefined : this.#numbers.get(nameOf(project, key));
  }

  get(n: number): AddedTrace | undefined {
    return this.#byNumber.get(n);
  }

  /** Removes a trace whose row is inserted now, or never. */
  take(n: number): AddedTrace | undefined {
    const trace = this.#byNumber.get(n);
    if (trace === undefined) return undefined;
    this.#byNumber.delete(n);
    this.#numbers.delete(nameOf(trace.project, trace.key));
    return trace;
  }

  takeAll(): readonly AddedTrace[] {
    if (this.#byNumber.size === 0) return [];
    const all = [...this.#byNumber.values()];
    this.#byNumber.clear();
    this.#numbers.clear();
    return all;
  }
}

function nameOf(project: string, key: Key): string {
  return `${project} ${nameOfKey(key)}`;
}
