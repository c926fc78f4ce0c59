import type { Clock } from '../../component/component.ts';
import { inTurns } from '../../component/turns.ts';
import type { ObservationBatch, ReceivedBatch } from '../../model/batch.ts';
import { headOf, observeItem, positionOf } from '../../model/formats.ts';
import { isJsonIndex } from '../../model/json/read.ts';
import { tooHeavy } from '../../model/otlp/weight.ts';
import { drop, isOpen } from '../../model/verbs.ts';
import { withoutItems } from './items.ts';
import { sha256 } from './named.ts';

/** A trace id or a user that is not stored until a time, in milliseconds since the epoch. */
export type BlockRow = { readonly project: string; readonly hash: string; readonly until: number };

/** The reason that is counted for an item that is left out. */
export const BLOCKED = 'erasure_block';

/** The hash of a blocked value. A trace id and a user with the same text differ. */
export function blockHash(kind: 'id' | 'user', value: string): string {
  return sha256(`${kind}:${value}`);
}

/** The trace and the user that an item names. */
type Named = { readonly traceId: string | null; readonly userId: string | null };

/** The blocks of erasures, in memory. While there are none, looking at a batch costs a comparison. */
export class ErasureBlocks {
  readonly #now: () => number;
  #byProject: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map();
  /** Numbers of reads: the last one that began, and the last one whose rows were taken up. */
  #begun = 0;
  #taken = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /**
   * Reads the rows of the store and takes them up. Of reads that overlap, the one that began last counts: it has every row that was stored
   * before any of them began.
   */
  async renew(read: () => Promise<readonly BlockRow[]>): Promise<void> {
    const number = ++this.#begun;
    const rows = await read();
    if (number < this.#taken) return;
    this.#taken = number;
    this.#replace(rows);
  }

  #replace(rows: readonly BlockRow[]): void {
    const byProject = new Map<string, Map<string, number>>();
    for (const { project, hash, until } of rows) {
      const hashes = byProject.get(project) ?? new Map<string, number>();
      byProject.set(project, hashes.set(hash, until));
    }
    this.#byProject = byProject;
  }

  get areSome(): boolean {
    return this.#byProject.size > 0;
  }

  /** Drops the blocked items of a request. A large batch is read in turns, which end with the request: its spans take seconds. */
  apply(batch: ReceivedBatch, clock: Clock, signal?: AbortSignal): Promise<void> | undefined {
    const blocks = this.#byProject.get(batch.tenant.projectId);
    return blocks === undefined ? undefined : inTurns(this.#dropping(batch, blocks), clock, signal);
  }

  /** Yields after each item. */
  *#dropping(batch: ReceivedBatch, blocks: ReadonlyMap<string, number>): Generator<void> {
    const open: number[] = [];
    const named: Named[] = [];
    for (let item = 0; item < batch.requestItems; item++) {
      if (!isOpen(batch, item)) continue;
      open.push(item);
      named.push(namedBy(batch, item));
      yield;
    }
    for (const at of this.#blocked(blocks, named)) drop(batch, open[at] ?? 0, BLOCKED);
  }

  /** The batch without blocked items, for a batch that was accepted before its block was known. */
  left(batch: ObservationBatch): ObservationBatch {
    const { source, observations } = batch;
    const blocks = this.#byProject.get(source.tenant.projectId);
    if (blocks === undefined) return batch;
    const blocked = new Set(
      this.#blocked(blocks, observations).map((at) => observations[at]?.index ?? -1),
    );
    if (blocked.size === 0) return batch;
    const positions = [...blocked].flatMap((index) => positionOf(source, index) ?? []);
    return {
      ...batch,
      source: withoutItems(source, new Set(positions)),
      observations: observations.filter(({ index }) => !blocked.has(index)),
    };
  }

  /** The places of the blocked items. An item without a user is blocked with another item of its trace. */
  #blocked(blocks: ReadonlyMap<string, number>, items: readonly Named[]): number[] {
    const now = this.#now();
    const isBlocked = (kind: 'id' | 'user', value: string | null): boolean =>
      value !== null && (blocks.get(blockHash(kind, value)) ?? 0) > now;
    const traces = new Set<string>();
    const direct = items.map(({ traceId, userId }) => {
      const found = isBlocked('user', userId) || isBlocked('id', traceId);
      if (found && traceId !== null) traces.add(traceId);
      return found;
    });
    return items.flatMap(({ traceId }, at) =>
      direct[at] === true || (traceId !== null && traces.has(traceId)) ? [at] : [],
    );
  }
}

/** No user is read of a span with too many elements to look, which the validation processor rejects. */
function namedBy({ index }: ReceivedBatch, item: number): Named {
  if (!isJsonIndex(index) && tooHeavy(index, item) !== undefined) {
    return { traceId: headOf(index, item).traceId, userId: null };
  }
  try {
    const { traceId, userId } = observeItem(index, item);
    return { traceId, userId };
  } catch {
    return { traceId: headOf(index, item).traceId, userId: null };
  }
}
