import type { ObservationBatch, SealedBatch } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import type { BatchRows } from '../../../src/store/rows/batch-rows.ts';
import { positionsOf, rowsOf } from '../../../src/store/rows/batch-rows.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey, ROW_LENGTH } from '../../../src/store/rows/observation-row.ts';
import { ObservationWrite } from '../../../src/store/rows/observation-write.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { StoreDatabase } from '../database.ts';
import { changesOf } from './changes.ts';
import type { Facts } from './facts.ts';
import { noFacts, Wanted } from './facts.ts';
import type { Beginning, TraceName } from './loading.ts';
import {
  addTraces,
  begin,
  isWaitedFor,
  loadSnapshot,
  lockNamed,
  someWait,
  TraceGone,
} from './loading.ts';
import { isNotRead, WorkingSet } from './working-set.ts';

/** Rows of one transaction: others that write the same traces need not wait for a whole large batch. */
export const ROWS = 500;
const ATTEMPTS = 6;
/** Rounds of reading what a write turned out to want: as many as generations of runs that wait. */
const ROUNDS = 1000;
/** Deadlock, serialization failure. */
const CONFLICTS = ['40P01', '40001'];

/**
 *   project locked, shared; traces made that are new ─▶ those that are not, locked ─▶ their rows read
 *     ─▶ raw batch, if it is not here ─▶ merged in memory (WorkingSet) ─▶ written and committed
 *
 * A round trip each, and none for what is not needed. Where runs without a trace are concerned, the same with the project for itself. In transactions of bounded
 * length; repeated after a crash in between, the first of them change nothing.
 */
export async function writeBatch(database: StoreDatabase, batch: ObservationBatch): Promise<void> {
  const { source, observations } = batch;
  const positions = positionsOf(source);
  for (let at = 0; at < observations.length; at += ROWS) {
    const rows = rowsOf(source, observations.slice(at, at + ROWS), positions);
    const part = { source, rows };
    if (!(await writeParts(database, [part], isPlaced(part)))) {
      await writeParts(database, [part], false);
    }
  }
}

/**
 * Writes batches of one project in one transaction, `ROWS` observations at the most. Resolves with false, and
 * nothing is written, where runs without a trace are concerned.
 */
export async function writeTogether(
  database: StoreDatabase,
  batches: readonly ObservationBatch[],
): Promise<boolean> {
  const parts = batches.map(({ source, observations }) => ({
    source,
    rows: rowsOf(source, observations, positionsOf(source)),
  }));
  return parts.every(isPlaced) && writeParts(database, parts, true);
}

/** Rows of a raw batch. */
type Part = { readonly source: SealedBatch; readonly rows: BatchRows };

/** Whether all of its observations say which trace they are in. */
function isPlaced({ rows }: Part): boolean {
  return rows.updates.length === 0 && rows.children.length === 0;
}

async function writeParts(
  database: StoreDatabase,
  parts: readonly Part[],
  isShared: boolean,
): Promise<boolean> {
  for (let attempt = 1; ; attempt++) {
    try {
      const write = new Write(database, parts, !isShared);
      await database.transaction((client) => write.run(client));
      return true;
    } catch (error) {
      if (error instanceof MustBeAlone) return false;
      if (attempt === ATTEMPTS || !isConflict(error)) throw error;
    }
  }
}

/** Whether it may succeed when it is done again at once. */
function isConflict(error: unknown): boolean {
  const cause = error instanceof RetryableError ? error.cause : error;
  if (cause instanceof TraceGone) return true;
  return cause instanceof Error && 'code' in cause && CONFLICTS.includes(String(cause.code));
}

/** Runs are concerned for which the project must be locked for this write alone. */
class MustBeAlone extends Error {
  override readonly name = 'MustBeAlone';
}

class Write {
  readonly #database: StoreDatabase;
  readonly #project: string;
  readonly #parts: readonly Part[];
  readonly #isAlone: boolean;
  readonly #facts: Facts = noFacts();

  constructor(database: StoreDatabase, parts: readonly Part[], isAlone: boolean) {
    this.#database = database;
    this.#project = parts[0]?.source.tenant.projectId ?? '';
    this.#parts = parts;
    this.#isAlone = isAlone;
  }

  async run(client: PostgresTransaction): Promise<void> {
    const project = this.#project;
    const names = this.#names();
    const sources = this.#sources();
    const [deleted, beginning, doSomeWait] = await client.together([
      this.#database.lockForAccept([project]),
      begin({
        ...{ project, isAlone: this.#isAlone, batchIds: sources.map(({ id }) => id) },
        observations: this.#sum(({ rows }) => rows.count),
        traces: this.#sum(({ rows }) => rows.children.length / (ROW_LENGTH + 1)),
      }),
      someWait(project),
      addTraces(project, names, this.#facts),
    ]);
    if (deleted.has(project)) {
      throw new PermanentError('project_deleted', `the project ${project} was deleted`);
    }
    if (!this.#isAlone && doSomeWait && (await isWaitedFor(client, project, this.#keys()))) {
      throw new MustBeAlone();
    }
    await lockNamed(client, project, names, this.#facts);
    await loadSnapshot(client, project, this.#firstWanted(), this.#facts);
    const set = await this.#merged(client, beginning);
    const missing = sources.filter(({ id }) => !beginning.batches.has(id));
    if (missing.length > 0) await this.#database.storeDelivered(client, missing);
    await client.commit(changesOf(project, set));
  }

  async #merged(client: PostgresTransaction, beginning: Beginning): Promise<WorkingSet> {
    for (let round = 0; round < ROUNDS; round++) {
      const set = this.#merge(beginning);
      if (set.wanted.isEmpty) return set;
      await loadSnapshot(client, this.#project, set.wanted, this.#facts);
    }
    throw new Error('a write wants more and more');
  }

  #keys(): Key[] {
    return this.#parts.flatMap(({ rows }) =>
      rows.traces.flatMap(([, , ofTrace]) => keysOf(ofTrace)),
    );
  }

  /** A batch that is delivered twice at the same time is one. */
  #sources(): SealedBatch[] {
    return [...new Map(this.#parts.map(({ source }) => [source.id, source])).values()];
  }

  #sum(count: (part: Part) => number): number {
    return this.#parts.reduce((sum, part) => sum + count(part), 0);
  }

  /** Each trace once, as the first batch that has events of it names it. */
  #names(): TraceName[] {
    const names = new Map<string, TraceName>();
    for (const { source, rows } of this.#parts) {
      for (const [key, longId] of rows.traces) {
        const name = nameOfKey(key);
        if (!names.has(name)) names.set(name, { key, longId, at: source.receivedAt });
      }
    }
    return [...names.values()];
  }

  /** What it is clear from the start that it asks for. */
  #firstWanted(): Wanted {
    const wanted = new Wanted();
    for (const { rows } of this.#parts) this.#want(wanted, rows);
    return wanted;
  }

  #want(wanted: Wanted, { traces, updates, children }: BatchRows): void {
    for (const [key, , rows] of traces) {
      const trace = this.#facts.numbers.get(nameOfKey(key)) ?? 0;
      for (const own of keysOf(rows)) {
        if (!this.#facts.empty.has(trace)) wanted.entry(trace, own);
        if (this.#isAlone) this.#wantRun(wanted, own);
      }
    }
    for (const own of keysOf(updates)) wanted.key('runs', own);
    for (const own of keysOf(children, 1)) {
      wanted.key('numbers', own);
      this.#wantRun(wanted, own);
    }
    for (const parent of keysOf(children, 1, 0)) {
      wanted.key('runs', parent);
      wanted.key('waiting', parent);
    }
  }

  #wantRun(wanted: Wanted, key: Key): void {
    wanted.key('pending', key);
    wanted.key('waiting', key);
    wanted.key('children', key);
    wanted.key('runs', key);
  }

  #merge({ numbers, traceNumbers }: Beginning): WorkingSet {
    const set = new WorkingSet(this.#facts, this.#isAlone, numbers, traceNumbers);
    try {
      for (const { source, rows } of this.#parts) {
        const run = new ObservationWrite(set, set, this.#project, source.id, source.receivedAt);
        for (const ofTrace of rows.traces) run.writeTrace(ofTrace);
        run.writeChildren(rows.children);
        run.writeUpdates(rows.updates);
        run.finish();
      }
    } catch (error) {
      if (!isNotRead(error) || set.wanted.isEmpty) throw error;
    }
    return set;
  }
}

/** Keys in a flat list of rows; `more` cells stand before each row, and `at` is where its key is. */
function keysOf(rows: readonly unknown[], more = 0, at = more): Key[] {
  const keys: Key[] = [];
  for (let i = at; i < rows.length; i += ROW_LENGTH + more) keys.push(rows[i] as Key);
  return keys;
}
