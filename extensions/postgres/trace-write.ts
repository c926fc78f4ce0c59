import type { ObservationBatch, RawBatch } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { BatchRows } from '../../src/store/rows/batch-rows.ts';
import { positionsOf, rowsOf } from '../../src/store/rows/batch-rows.ts';
import type { Key } from '../../src/store/rows/observation-row.ts';
import { nameOfKey, ROW_LENGTH } from '../../src/store/rows/observation-row.ts';
import { ObservationWrite } from '../../src/store/rows/observation-write.ts';
import type { QueueClient, QueueDatabase } from './queue-database.ts';
import type { Facts } from './trace-facts.ts';
import { noFacts, Wanted } from './trace-facts.ts';
import { flush } from './trace-flush.ts';
import type { Beginning } from './trace-loading.ts';
import { begin, isWaitedFor, load, nameTraces, TraceGone } from './trace-loading.ts';
import { isNotRead, WorkingSet } from './trace-working-set.ts';

/** Rows of one transaction: others that write the same traces need not wait for a whole large batch. */
const ROWS = 500;
const ATTEMPTS = 6;
/** Rounds of reading what a write turned out to want: as many as generations of runs that wait. */
const ROUNDS = 1000;
/** Deadlock, serialization failure. */
const CONFLICTS = ['40P01', '40001'];

/**
 *   lock the project, shared ─▶ raw batch, if it is not here ─▶ traces made sure of and locked
 *     ─▶ rows read ─▶ merged in memory (WorkingSet) ─▶ written, a statement for each kind of change
 *
 * Where runs without a trace are concerned, the same with the project for itself. In transactions of bounded
 * length; repeated after a crash in between, the first of them change nothing.
 */
export async function writeBatch(database: QueueDatabase, batch: ObservationBatch): Promise<void> {
  const { source, observations } = batch;
  const positions = positionsOf(source);
  for (let at = 0; at < observations.length; at += ROWS) {
    await writeRows(database, source, rowsOf(source, observations.slice(at, at + ROWS), positions));
  }
}

async function writeRows(
  database: QueueDatabase,
  source: RawBatch,
  rows: BatchRows,
): Promise<void> {
  let isAlone = rows.updates.length > 0 || rows.children.length > 0;
  for (let attempt = 1; ; attempt++) {
    try {
      const write = new Write(database, source, rows, isAlone);
      if (await database.transaction((client) => write.run(client))) return;
      isAlone = true;
    } catch (error) {
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

class Write {
  readonly #database: QueueDatabase;
  readonly #source: RawBatch;
  readonly #rows: BatchRows;
  readonly #isAlone: boolean;
  readonly #facts: Facts = noFacts();

  constructor(database: QueueDatabase, source: RawBatch, rows: BatchRows, isAlone: boolean) {
    this.#database = database;
    this.#source = source;
    this.#rows = rows;
    this.#isAlone = isAlone;
  }

  /** Resolves with false, before anything was written, where the project must be locked for this alone. */
  async run(client: QueueClient): Promise<boolean> {
    const { id, receivedAt, tenant } = this.#source;
    const { projectId } = tenant;
    const { traces, children } = this.#rows;
    const deleted = await this.#database.deletedOf(client, [projectId]);
    if (deleted.has(projectId)) {
      throw new PermanentError('project_deleted', `the project ${projectId} was deleted`);
    }
    const beginning = await begin(client, {
      ...{ project: projectId, isAlone: this.#isAlone, batchId: id },
      observations: this.#rows.count,
      traces: children.length / (ROW_LENGTH + 1),
    });
    const keys = traces.flatMap(([, , rows]) => keysOf(rows));
    if (!this.#isAlone && (await isWaitedFor(client, projectId, keys))) return false;
    if (!beginning.hasBatch) await this.#database.keep(client, [this.#source]);
    await nameTraces(client, projectId, traces, receivedAt, this.#facts);
    await load(client, projectId, this.#firstWanted(), this.#facts);
    for (let round = 0; round < ROUNDS; round++) {
      const set = this.#merge(beginning);
      if (set.wanted.isEmpty) {
        await flush(client, projectId, set);
        return true;
      }
      await load(client, projectId, set.wanted, this.#facts);
    }
    throw new Error('a write wants more and more');
  }

  /** What it is clear from the start that it asks for. */
  #firstWanted(): Wanted {
    const wanted = new Wanted();
    for (const [key, , rows] of this.#rows.traces) {
      const trace = this.#facts.numbers.get(nameOfKey(key)) ?? 0;
      for (const own of keysOf(rows)) {
        if (!this.#facts.empty.has(trace)) wanted.entry(trace, own);
        if (this.#isAlone) this.#wantRun(wanted, own);
      }
    }
    for (const own of keysOf(this.#rows.updates)) wanted.key('runs', own);
    for (const own of keysOf(this.#rows.children, 1)) {
      wanted.key('numbers', own);
      this.#wantRun(wanted, own);
    }
    for (const parent of keysOf(this.#rows.children, 1, 0)) {
      wanted.key('runs', parent);
      wanted.key('waiting', parent);
    }
    return wanted;
  }

  #wantRun(wanted: Wanted, key: Key): void {
    wanted.key('pending', key);
    wanted.key('waiting', key);
    wanted.key('children', key);
    wanted.key('runs', key);
  }

  #merge({ numbers, traceNumbers }: Beginning): WorkingSet {
    const { id, receivedAt, tenant } = this.#source;
    const set = new WorkingSet(this.#facts, this.#isAlone, numbers, traceNumbers);
    try {
      const run = new ObservationWrite(set, set, tenant.projectId, id, receivedAt);
      for (const rows of this.#rows.traces) run.writeTrace(rows);
      run.writeChildren(this.#rows.children);
      run.writeUpdates(this.#rows.updates);
      run.finish();
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
