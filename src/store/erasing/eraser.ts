import type { Steps } from '../../component/background.ts';
import type { Clock, Logger } from '../../component/component.ts';
import type { Query } from '../../query/query.ts';
import { DeliveryUnderWay } from '../../queue/queue.ts';
import type { ProjectStore } from '../../tenancy/contract.ts';
import type { ChangeFeed } from '../changes.ts';
import { UNNAMED } from '../changes.ts';
import type { ErasureReceipt } from '../erasures.ts';
import type { Key } from '../rows/observation-row.ts';
import { idOfKey, keyOfId } from '../rows/observation-row.ts';
import type { TraceStore } from '../store.ts';
import { hashOfKey, namedValues, sha256 } from './named.ts';
import type { OtherQueues } from './other-queues.ts';
import { cleanQueues, sweepQueues } from './other-queues.ts';
import type { ErasureRecord } from './record.ts';
import { erasureRecord, erasureText, finishedAudit, hashedRecord } from './record.ts';
import type { ErasingTables, ErasureCounts, ErasureRow, ErasureScope, Stepping } from './tables.ts';

/** Traces that one step of the search lists. */
const FOUND_TRACES = 100;
/** Pauses in which an erasure waits for entries that are on their way into the store, before it goes on without them. */
const SETTLE_PAUSES = 6000;
/** A look reads the heads of all queues, so most pauses pass without one. */
const PAUSES_PER_LOOK = 20;
/** The longest wait for a delivery of another queue, before other erasures go on. */
const DELIVERY_MS = 5 * 60_000;
/** How often an erasure that such a delivery holds up is tried again, and how long it waits then. */
export const POSTPONED_MS = 60_000;
const POSTPONED_WAIT_MS = 5_000;

export type EraserParts = {
  readonly tables: ErasingTables;
  readonly queues: OtherQueues;
  readonly traces: Pick<TraceStore, 'listTraces'>;
  readonly projects: Pick<ProjectStore, 'get'>;
  readonly changes: Pick<ChangeFeed, 'publish'>;
  readonly clock: Clock;
  readonly logger: Logger;
};

/**
 * Carries out erasures, in steps. A pass finds traces, cuts their items out of every batch, and then removes their rows; passes
 * are repeated until one finds nothing:
 *
 *   listed traces ◀─ query, queues ─┐
 *        └▶ batches cut ─▶ rows removed ─▶ (found something) ─▶ answers, worklists, log ─▶ receipt
 *
 * Work that a crash broke off begins again with the first pass, whose steps find less to do. So does an erasure that a long delivery
 * holds up: it lets the others go first, and is tried again later.
 */
export class Eraser {
  readonly #parts: EraserParts;
  #hasPostponed = false;

  constructor(parts: EraserParts) {
    this.#parts = parts;
  }

  /** Whether the last work left an erasure for later. */
  get hasPostponed(): boolean {
    return this.#hasPostponed;
  }

  /** Rejects with the failures after the last erasure: one that fails each time holds up no other. */
  async *work(): Steps {
    const { tables, clock } = this.#parts;
    this.#hasPostponed = false;
    const failures: unknown[] = [];
    for (const row of await tables.open()) {
      try {
        const { postponedAt } = erasureRecord(row);
        const rests =
          postponedAt !== undefined && Math.abs(clock.now() - postponedAt) < POSTPONED_MS;
        if (rests) this.#hasPostponed = true;
        else yield* this.#carryOutOrPostpone(row);
      } catch (error) {
        failures.push(error);
      }
      yield;
    }
    if (failures.length > 1)
      throw new AggregateError(failures, `${failures.length} erasures failed`);
    if (failures.length === 1) throw failures[0];
  }

  async *#carryOutOrPostpone(row: ErasureRow): Steps {
    const { tables, clock, logger } = this.#parts;
    try {
      yield* this.#carryOut(row);
    } catch (error) {
      if (!(error instanceof DeliveryUnderWay)) throw error;
      const record = { ...erasureRecord(row), failure: error.message, postponedAt: clock.now() };
      await tables.save(row.id, erasureText(record));
      this.#hasPostponed = true;
      logger.warn(
        { project: row.project, erasure: row.id, err: error },
        'Erasure waits for a delivery; it goes on later',
      );
    }
  }

  async *#carryOut(row: ErasureRow): Steps {
    const { tables, projects, clock, logger } = this.#parts;
    const record = erasureRecord(row);
    if ((await projects.get(row.project)) === undefined) {
      const failure = 'the project was deleted';
      const ended = { ...hashedRecord(record), state: 'failed', failure } as const;
      yield* tables.forget(row.id);
      await tables.end(row.id, erasureText({ ...ended, finishedAt: clock.now() }), row, null);
      return;
    }
    const about = { project: row.project, erasure: row.id };
    if (record.isDryRun) {
      yield* this.#count(row, record);
      logger.info(about, 'Dry run of an erasure finished');
    } else {
      yield* this.#erase(row, record);
      logger.info(about, 'Erasure finished');
    }
  }

  /** A dry run. */
  async *#count(row: ErasureRow, record: ErasureRecord): Steps {
    const { tables, clock } = this.#parts;
    const { parsed: query } = record;
    if (query === null) return;
    const scope = scopeOf(row, record);
    yield* tables.forget(row.id);
    const { traces, observations } = yield* this.#find(scope, query);
    yield* tables.addWaiting(scope);
    const stored = yield* tables.clean(scope);
    const waiting = yield* cleanQueues(tables, this.#parts.queues, scope, 0);
    const bytes = stored.bytes + waiting.bytes;
    yield* tables.forget(row.id);
    const ended = { ...hashedRecord(record), state: 'counted', finishedAt: clock.now() } as const;
    await tables.end(row.id, erasureText(ended), { traces, observations, bytes }, null);
  }

  async *#erase(row: ErasureRow, given: ErasureRecord): Steps {
    const { tables, clock } = this.#parts;
    const scope = scopeOf(row, given);
    const { postponedAt, ...begun } = given;
    let record: ErasureRecord = { ...begun, failure: null };
    const waitMs = postponedAt === undefined ? DELIVERY_MS : POSTPONED_WAIT_MS;
    const { parsed } = record;
    if (parsed !== null) {
      yield* this.#untilStored(scope);
      let unreadable = 0;
      for (let found = true; found; ) {
        const pass = yield* this.#pass(scope, parsed, waitMs);
        unreadable = pass.unreadable;
        // A delivery may have stored a batch between the search and the look at its queue.
        found = pass.found || (yield* this.#find(scope, parsed)).traces > 0;
      }
      yield* tables.removeBatches(scope);
      yield* tables.cleanAnswers(scope);
      const receipt = await this.#receipt(row, unreadable);
      record = { ...hashedRecord(record), receipt };
      await tables.save(row.id, erasureText(record));
    }
    yield* tables.forget(row.id);
    yield* tables.sweep(scope);
    yield* sweepQueues(this.#parts.queues);
    const counts = (await tables.get(row.project, row.id)) ?? row;
    const done = { ...record, state: 'done', finishedAt: clock.now() } as const;
    await tables.end(row.id, erasureText(done), counts, finishedAudit(row, done));
  }

  /** Entries that were accepted before the request can be on their way from a queue into the store. */
  async *#untilStored(scope: ErasureScope): Steps {
    for (let pauses = 0; pauses < SETTLE_PAUSES; pauses++) {
      const looks = pauses % PAUSES_PER_LOOK === 0;
      if (looks && !(await this.#parts.tables.hasUnstored(scope))) return;
      yield;
    }
  }

  async *#pass(
    scope: ErasureScope,
    query: Query,
    waitMs: number,
  ): Stepping<{ found: boolean; unreadable: number }> {
    const { tables } = this.#parts;
    const { traces } = yield* this.#find(scope, query);
    const again = yield* this.#listAgain(scope);
    yield* tables.addWaiting(scope);
    let { items, unreadable } = yield* tables.clean(scope);
    const waiting = yield* cleanQueues(tables, this.#parts.queues, scope, waitMs);
    items += waiting.items;
    unreadable += waiting.unreadable;
    while (!(yield* tables.removeTraces(scope))) {
      const more = yield* tables.clean(scope);
      items += more.items;
      unreadable += more.unreadable;
    }
    return { found: traces + again + items > 0, unreadable };
  }

  async *#find(scope: ErasureScope, query: Query): Stepping<Omit<ErasureCounts, 'bytes'>> {
    const { tables, traces } = this.#parts;
    const sum = { traces: 0, observations: 0 };
    let cursor: string | null | undefined;
    while (cursor !== null) {
      const page = await traces.listTraces(scope.project, {
        ...{ query, limit: FOUND_TRACES },
        ...(cursor === undefined ? {} : { cursor }),
      });
      yield;
      if (page.items.length > 0) {
        const added = yield* tables.addTraces(
          scope,
          page.items.map(({ id }) => keyOfId(id)),
        );
        sum.traces += added.traces;
        sum.observations += added.observations;
      }
      cursor = page.nextCursor;
    }
    return sum;
  }

  /** Lists the traces again that came back, because a delivery of their events was under way. */
  async *#listAgain(scope: ErasureScope): Stepping<number> {
    const { tables } = this.#parts;
    let again = 0;
    let after: Key | null = null;
    for (;;) {
      const keys: readonly Key[] = await tables.keys(scope.id, after);
      if (keys.length === 0) return again;
      again += (yield* tables.addTraces(scope, keys)).traces;
      after = keys.at(-1) ?? null;
      yield;
    }
  }

  async #receipt(row: ErasureRow, unreadableBatches: number): Promise<ErasureReceipt> {
    const { tables, changes, clock } = this.#parts;
    const hashes: string[] = [];
    let after: Key | null = null;
    for (;;) {
      const keys: readonly Key[] = await tables.keys(row.id, after);
      if (keys.length === 0) break;
      for (const key of keys) hashes.push(hashOfKey(key));
      // A list that follows the stream of the project removes them.
      changes.publish(
        row.project,
        keys.map((key) => idOfKey(key) ?? UNNAMED),
      );
      after = keys.at(-1) ?? null;
    }
    const { traces, observations, bytes } = (await tables.get(row.project, row.id)) ?? row;
    return {
      ...{ traces, observations, bytes, unreadableBatches },
      idsHash: sha256(hashes.sort().join('\n')),
      verifiedAt: clock.now(),
      copies: tables.copies,
    };
  }
}

function scopeOf({ id, project }: ErasureRow, record: ErasureRecord): ErasureScope {
  const { requestedAt, isDryRun, parsed } = record;
  const named = (parsed === null ? undefined : namedValues(parsed)) ?? null;
  return { id, project, until: requestedAt, named, isDryRun };
}
