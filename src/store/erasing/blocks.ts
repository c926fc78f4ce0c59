import type { Clock } from '../../component/component.ts';
import { LruCache } from '../../component/lru.ts';
import { inTurns } from '../../component/turns.ts';
import type { Format, ObservationBatch, ReceivedBatch } from '../../model/batch.ts';
import { headOf, observeItem, positionOf, sourceOf } from '../../model/formats.ts';
import { isJsonIndex } from '../../model/json/read.ts';
import type { Observation } from '../../model/observation.ts';
import { tooHeavy } from '../../model/otlp/weight.ts';
import { drop, isOpen } from '../../model/verbs.ts';
import type { CopyKey } from '../rows/copies.ts';
import { repeatableRun, repeatedRun } from '../rows/copies.ts';
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
type Named = {
  readonly traceId: string | null;
  readonly userId: string | null;
  /** The key of the run that the item is, and of the one that it repeats. */
  readonly run: CopyKey | null;
  readonly copy: CopyKey | null;
};

/** Blocked runs that are remembered: their spans follow within seconds. */
const MAX_RUNS = 20_000;

/** The blocks of erasures, in memory. While there are none, looking at a batch costs a comparison. */
export class ErasureBlocks {
  readonly #now: () => number;
  #byProject: ReadonlyMap<string, ReadonlyMap<string, number>> = new Map();
  /**
   * Runs that were left out, and the users whom their traces name. A client may send a span beside each, which names neither the run nor,
   * perhaps, its user.
   */
  readonly #runs = new LruCache<string, { readonly userId: string | null }>({
    maxEntries: MAX_RUNS,
  });
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
    const { projectId } = batch.tenant;
    for (const at of this.#blocked(projectId, blocks, named)) drop(batch, open[at] ?? 0, BLOCKED);
  }

  /** The batch without blocked items, for a batch that was accepted before its block was known. */
  left(batch: ObservationBatch): ObservationBatch {
    const { source, observations } = batch;
    const { projectId } = source.tenant;
    const blocks = this.#byProject.get(projectId);
    if (blocks === undefined) return batch;
    const named = observations.map((observation) => namedIn(observation, source.format));
    const blocked = new Set(
      this.#blocked(projectId, blocks, named).map((at) => observations[at]?.index ?? -1),
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
  #blocked(
    project: string,
    blocks: ReadonlyMap<string, number>,
    items: readonly Named[],
  ): number[] {
    const now = this.#now();
    const isBlocked = (kind: 'id' | 'user', value: string | null): boolean =>
      value !== null && (blocks.get(blockHash(kind, value)) ?? 0) > now;
    const users = usersOf(items);
    const repeats = ({ copy, traceId, userId }: Named): boolean => {
      const run = copy === null ? undefined : this.#runs.get(`${project} ${copy}`);
      if (run === undefined) return false;
      // Many runs may have the same name and, of a client that counts milliseconds, the same start.
      const user = userId ?? users.get(traceId);
      return user === undefined || run.userId === null || user === run.userId;
    };
    const traces = new Set<string>();
    const direct = items.map((item) => {
      const { traceId, userId } = item;
      const found = repeats(item) || isBlocked('user', userId) || isBlocked('id', traceId);
      if (found && traceId !== null) traces.add(traceId);
      return found;
    });
    return items.flatMap(({ traceId, userId, run }, at) => {
      if (direct[at] !== true && (traceId === null || !traces.has(traceId))) return [];
      if (run !== null) this.#remember(`${project} ${run}`, userId ?? users.get(traceId) ?? null);
      return [at];
    });
  }

  #remember(run: string, userId: string | null): void {
    const known = this.#runs.get(run);
    const isOfBoth = known === undefined || known.userId === userId;
    this.#runs.set(run, { userId: isOfBoth ? userId : null });
  }
}

/** A user of each trace that names one. */
function usersOf(items: readonly Named[]): ReadonlyMap<string | null, string> {
  const users = new Map<string | null, string>();
  for (const { traceId, userId } of items) {
    if (traceId !== null && userId !== null) users.set(traceId, userId);
  }
  return users;
}

/** No user is read of a span with too many elements to look, which the validation processor rejects. */
function namedBy({ index, format }: ReceivedBatch, item: number): Named {
  const head = () => ({
    traceId: headOf(index, item).traceId,
    userId: null,
    run: null,
    copy: null,
  });
  if (!isJsonIndex(index) && tooHeavy(index, item) !== undefined) return head();
  try {
    return namedIn(observeItem(index, item), format);
  } catch {
    return head();
  }
}

function namedIn(observation: Observation, format: Format): Named {
  const source = sourceOf(format);
  const { traceId, userId } = observation;
  return {
    ...{ traceId, userId },
    run: repeatableRun(observation, source),
    copy: repeatedRun(observation, source),
  };
}
