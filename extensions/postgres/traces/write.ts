import type { ObservationBatch, SealedBatch } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import type { BatchRows } from '../../../src/store/rows/batch-rows.ts';
import { positionsOf, rowsOf } from '../../../src/store/rows/batch-rows.ts';
import { copyKeyOf, otherCopy } from '../../../src/store/rows/copies.ts';
import type { FlatRows, Key } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey, ROW_LENGTH, rowAt, rowKeyAt } from '../../../src/store/rows/observation-row.ts';
import { ObservationWrite } from '../../../src/store/rows/observation-write.ts';
import { MAX_SUMMARIZED } from '../../../src/store/rows/written-trace.ts';
import { attachmentStatements } from '../attachments/attachments.ts';
import { isConflict } from '../connection/errors.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import { repeated } from '../connection/repeated.ts';
import type { Statement } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import { cutItemsOf, erasedItemsOf, refuseErased } from '../erasing/in-flight.ts';
import { changesOf } from './changes.ts';
import { load } from './loading.ts';
import type { Begun } from './locking.ts';
import {
  begin,
  expiredBatches,
  forgetEmpty,
  hasWaiting,
  isWaitedFor,
  lockTraces,
  numberTraces,
  TraceGone,
} from './locking.ts';
import { traceIds } from './reading.ts';
import type { Snapshot, TraceName } from './snapshot.ts';
import { emptySnapshot, ReadSet } from './snapshot.ts';
import { isNotRead, NeedsExclusiveLock, WorkingSet } from './working-set.ts';

/** Observations of one transaction: writers of the same traces wait for so many rows, not for a large batch. */
export const MAX_ROWS = 500;
const ATTEMPTS = 6;
/** Merges of one write: as many as generations of runs that wait for each other. */
const MAX_MERGES = 1000;

export type WriteParts = {
  readonly database: StoreDatabase;
  readonly retention: Retention;
};

/** Traces of a project whose newest event is older (milliseconds since the epoch) are expired. */
type Retention = { since(projectId: string): number };

/**
 * One transaction:
 *
 *   accept lock, project lock, keys of new traces ─▶ existing traces locked ─▶ their rows read
 *     ─▶ raw batch stored if it is missing ─▶ merged in memory (WorkingSet) ─▶ changes with COMMIT
 *
 * Each step is at most one round trip, and is skipped if there is nothing to do: a batch of new traces takes two. If
 * observations name no trace, or are sent as runs and as spans, the project lock is exclusive. A large batch takes several transactions; repeating one
 * that was committed changes nothing.
 */
export async function writeBatch(to: WriteParts, batch: ObservationBatch): Promise<void> {
  const { source, observations } = batch;
  const positions = positionsOf(source);
  let expired: ExpiredBatches | undefined;
  for (let at = 0; at < observations.length; at += MAX_ROWS) {
    const rows = rowsOf(source, observations.slice(at, at + MAX_ROWS), positions);
    const part = { source, rows };
    const shared = isPlaced(part) ? await writeShared(to, [part], expired) : undefined;
    // Asked before the first part only: retention may remove the traces of a late part before the next one is written.
    expired = shared ?? (await write(to, [part], true, expired));
  }
}

/**
 * Writes batches of one project, at most `MAX_ROWS` observations, in one transaction. Resolves with false, and writes
 * nothing, if runs without a trace take part.
 */
export async function writeTogether(
  to: WriteParts,
  batches: readonly ObservationBatch[],
): Promise<boolean> {
  const parts = batches.map(({ source, observations }) => ({
    source,
    rows: rowsOf(source, observations, positionsOf(source)),
  }));
  return parts.every(isPlaced) && (await writeShared(to, parts)) !== undefined;
}

/** Rows of a raw batch. */
type Part = { readonly source: SealedBatch; readonly rows: BatchRows };

/** The ids of those batches of a write that were written before, and of which retention has removed traces since. */
type ExpiredBatches = ReadonlySet<string>;

/** Whether every observation names its trace, and none is a run and a span. */
function isPlaced({ rows }: Part): boolean {
  return rows.updates.length === 0 && rows.children.length === 0 && !rows.hasCopies;
}

/** Resolves with undefined, and writes nothing, if the parts need the exclusive lock. */
async function writeShared(
  to: WriteParts,
  parts: readonly Part[],
  expired?: ExpiredBatches,
): Promise<ExpiredBatches | undefined> {
  try {
    return await write(to, parts, false, expired);
  } catch (error) {
    if (error instanceof NeedsExclusiveLock) return undefined;
    throw error;
  }
}

/** Resolves with the batches that were expired before; `expired` has them if it is known. */
async function write(
  to: WriteParts,
  parts: readonly Part[],
  isExclusive: boolean,
  expired: ExpiredBatches | undefined,
): Promise<ExpiredBatches> {
  return repeated(ATTEMPTS, mayPass, async () => {
    const attempted = new Write(to, parts, isExclusive, expired);
    const found = await to.database.transaction((client) => attempted.run(client));
    await attempted.publish();
    return found;
  });
}

/** Whether an immediate retry may succeed. */
function mayPass(error: unknown): boolean {
  const cause = error instanceof RetryableError ? error.cause : error;
  return cause instanceof TraceGone || isConflict(error);
}

class Write {
  readonly #database: StoreDatabase;
  readonly #project: string;
  readonly #parts: readonly Part[];
  readonly #isExclusive: boolean;
  readonly #retention: Retention;
  #expired: ExpiredBatches | undefined;
  readonly #snapshot: Snapshot = emptySnapshot();
  /** The numbers of the traces that were written. */
  #changed: readonly number[] = [];

  constructor(
    { database, retention }: WriteParts,
    parts: readonly Part[],
    isExclusive: boolean,
    expired: ExpiredBatches | undefined,
  ) {
    this.#database = database;
    this.#retention = retention;
    this.#expired = expired;
    this.#project = parts[0]?.source.tenant.projectId ?? '';
    this.#parts = parts;
    this.#isExclusive = isExclusive;
  }

  async run(client: PostgresTransaction): Promise<ExpiredBatches> {
    const project = this.#project;
    const names = this.#names();
    const sources = this.#sources();
    const [deleted, begun, erased, doSomeWait] = await client.together([
      this.#database.lockForAccept([project]),
      begin({
        ...{ project, isExclusive: this.#isExclusive, batchIds: sources.map(({ id }) => id) },
        observations: this.#sum(({ rows }) => rows.count),
        traces: this.#sum(({ rows }) => rows.children.length / (ROW_LENGTH + 1)),
      }),
      // After the rows of the batches are held: an erasure that comes later waits for this write.
      erasedItemsOf(sources.map(({ id }) => id)),
      hasWaiting(project),
      numberTraces(project, names, this.#snapshot),
    ]);
    if (deleted.has(project)) {
      throw new PermanentError('project_deleted', `the project ${project} was deleted`);
    }
    refuseErased(sources, erased);
    refuseErased(sources, cutItemsOf(sources, begun.cut));
    if (!this.#isExclusive && doSomeWait && (await isWaitedFor(client, project, this.#keys()))) {
      throw new NeedsExclusiveLock();
    }
    await lockTraces(client, project, names, this.#snapshot);
    const expired = await this.#leaveExpired(client);
    await load(client, project, this.#firstReads(), this.#snapshot);
    const set = await this.#merged(client, begun, expired);
    const missing = sources.filter(({ id }) => !begun.batches.has(id));
    if (missing.length > 0) await this.#database.storeDelivered(client, missing);
    const statements = changesOf(project, set, begun.isSearched);
    await client.commit([...statements, ...this.#attachments()]);
    this.#changed = set.changedTraces(set.changes()).map(({ n }) => n);
    this.#database.terms.leftOut(set.unindexedTerms);
    return expired;
  }

  /**
   * Finds the expired batches, and forgets the keys of traces that only these would begin. Behind the locks of the traces: a trace that
   * is gone by then has left its note.
   */
  async #leaveExpired(client: PostgresTransaction): Promise<ExpiredBatches> {
    const since = this.#retention.since(this.#project);
    const old = this.#sources().filter(({ receivedAt }) => receivedAt < since);
    const ids = old.map(({ id }) => id);
    this.#expired ??= await expiredBatches(client, this.#project, ids);
    const expired = this.#expired;
    if (expired.size === 0) return expired;
    const others = this.#parts.filter(({ source }) => !expired.has(source.id));
    const begun = new Set(namesOf(others).map(({ key }) => nameOfKey(key)));
    const left = this.#names().filter(({ key }) => !begun.has(nameOfKey(key)));
    const keys = left.map(({ key }) => key);
    await forgetEmpty(client, this.#project, keys, this.#snapshot);
    return expired;
  }

  /** Reports the changed traces to the streams of the project. An error has no effect on the write, which has succeeded. */
  async publish(): Promise<void> {
    const { changes } = this.#database;
    if (this.#changed.length === 0 || !changes.isWatched(this.#project)) return;
    try {
      changes.publish(this.#project, await traceIds(this.#database, this.#changed));
    } catch {
      // A stream misses the change.
    }
  }

  /** Merges until a run misses no row. */
  async #merged(
    client: PostgresTransaction,
    begun: Begun,
    expired: ExpiredBatches,
  ): Promise<WorkingSet> {
    for (let run = 0; run < MAX_MERGES; run++) {
      const set = this.#merge(begun, expired);
      if (set.missing.isEmpty) return set;
      await load(client, this.#project, set.missing, this.#snapshot);
    }
    throw new Error('Write set did not converge');
  }

  #keys(): Key[] {
    return this.#parts.flatMap(({ rows }) => rows.traces.flatMap((trace) => keysOf(trace.rows)));
  }

  /** One each, even if a batch is delivered twice at the same time. */
  #sources(): SealedBatch[] {
    return [...new Map(this.#parts.map(({ source }) => [source.id, source])).values()];
  }

  #attachments(): Statement[] {
    return this.#parts.flatMap(({ source, rows }) =>
      attachmentStatements(this.#project, source.id, rows.attachments),
    );
  }

  #sum(count: (part: Part) => number): number {
    return this.#parts.reduce((sum, part) => sum + count(part), 0);
  }

  #names(): TraceName[] {
    return namesOf(this.#parts);
  }

  /** The rows that the merge certainly asks for. */
  #firstReads(): ReadSet {
    const reads = new ReadSet();
    for (const { rows } of this.#parts) this.#addReads(reads, rows);
    for (const { n, observations } of this.#snapshot.traces.values()) {
      if (observations <= MAX_SUMMARIZED) reads.whole.add(n);
    }
    return reads;
  }

  #addReads(reads: ReadSet, { traces, updates, children }: BatchRows): void {
    for (const { key, rows } of traces) {
      const trace = this.#snapshot.numbers.get(nameOfKey(key)) ?? 0;
      for (const own of keysOf(rows)) {
        if (!this.#snapshot.empty.has(trace)) reads.addEntry(trace, own);
        if (this.#isExclusive) addRun(reads, own);
      }
      if (this.#isExclusive) addCopies(reads, rows);
    }
    for (const own of keysOf(updates)) reads.addKey('runs', own);
    for (const own of keysOf(children, 1)) {
      reads.addKey('numbers', own);
      addRun(reads, own);
    }
    for (const parent of keysOf(children, 1, 0)) {
      reads.addKey('runs', parent);
      reads.addKey('waiting', parent);
    }
  }

  #merge({ numbers, traceNumbers }: Begun, expired: ExpiredBatches): WorkingSet {
    const set = new WorkingSet(this.#snapshot, this.#isExclusive, numbers, traceNumbers);
    try {
      for (const { source, rows } of this.#parts) {
        const merge = new ObservationWrite(set, set, {
          project: this.#project,
          keyId: source.tenant.keyId,
          batch: source.id,
          receivedAt: source.receivedAt,
          pricing: this.#database.prices.pricing,
          rollups: set.rollups,
          isExpired: expired.has(source.id),
        });
        for (const ofTrace of rows.traces) merge.writeTrace(ofTrace);
        merge.writeChildren(rows.children);
        merge.writeUpdates(rows.updates);
        merge.finish();
      }
    } catch (error) {
      if (!isNotRead(error) || set.missing.isEmpty) throw error;
    }
    return set;
  }
}

/** Each trace once, with the times of the first batch that has events of it. */
function namesOf(parts: readonly Part[]): TraceName[] {
  const names = new Map<string, TraceName>();
  for (const { source, rows } of parts) {
    for (const { key, longId } of rows.traces) {
      const name = nameOfKey(key);
      if (!names.has(name)) names.set(name, { key, longId, at: source.receivedAt });
    }
  }
  return [...names.values()];
}

function addRun(reads: ReadSet, key: Key): void {
  reads.addKey('pending', key);
  reads.addKey('waiting', key);
  reads.addKey('children', key);
  reads.addKey('runs', key);
}

function addCopies(reads: ReadSet, rows: FlatRows): void {
  for (let at = 0; at < rows.length; at += ROW_LENGTH) {
    const copy = copyKeyOf(rowAt(rows, at));
    if (copy !== null) reads.copies.add(otherCopy(copy));
  }
}

/** Keys in a flat list of rows; `before` cells precede each row, and `at` is the index of its key. */
function keysOf(rows: FlatRows, before = 0, at = before): Key[] {
  const keys: Key[] = [];
  for (let i = at; i < rows.length; i += ROW_LENGTH + before) keys.push(rowKeyAt(rows, i));
  return keys;
}
