import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync } from 'node:zlib';
import { STORE_MIGRATIONS } from '../extensions/sqlite/migrations/index.ts';
import { postingOperations } from '../extensions/sqlite/traces/posting-operations.ts';
import {
  foldReadOperations,
  rollupOperations,
} from '../extensions/sqlite/traces/rollup-operations.ts';
import { traceOperations } from '../extensions/sqlite/traces/write-operations.ts';
import { createPricing } from '../processors/cost/prices.ts';
import type { SealedBatch } from '../src/model/batch.ts';
import { observe } from '../src/model/formats.ts';
import { withinLimits } from '../src/model/narrow-limits.ts';
import type { Observation } from '../src/model/observation.ts';
import { recordOf } from '../src/queue/record.ts';
import { migrateFile } from '../src/sqlite/migrate.ts';
import { rowsOf } from '../src/store/rows/batch-rows.ts';
import { rawBatch } from '../test/helper/batches.ts';
import { bodyOf, SPANS_A_BODY } from './reading/data.ts';

/**
 * Prints what the storing of distinct spans costs in SQLite, in microseconds of CPU a span, step by step, without sockets and threads:
 *   node bench/storing.ts [BATCHES]
 * The floor inserts a narrow row for each span, and the same body for each batch.
 */
const BATCHES = Number(process.argv[2] ?? 300);
const WARM_UP = 60;
/** Batches of a transaction, as the writing thread has them while a queue is drained. */
const GROUP = 8;
/** Groups of two seconds at 10,000 spans a second, after which the background posts traces and adds to the rollups. */
const ROUND_GROUPS = 25;

type Normalized = { readonly batch: SealedBatch; readonly observations: readonly Observation[] };

const STEPS = ['rows', 'write', 'commit', 'fold', 'post', 'floor', 'floor: commit'] as const;
type Step = (typeof STEPS)[number];

const pricing = createPricing({});
const spent = new Map<Step, number>();

function measured<T>(step: Step, work: () => T): T {
  const before = process.cpuUsage();
  const made = work();
  const { user, system } = process.cpuUsage(before);
  spent.set(step, (spent.get(step) ?? 0) + user + system);
  return made;
}

/** The start times are within an hour, as those of a load at one moment are. */
function normalized(number: number): Normalized {
  const now = Date.UTC(2026, 0, 15, 12);
  const body = gunzipSync(bodyOf(number, 1 - number / 1e6, now));
  const batch = rawBatch('otlp_json', body, SPANS_A_BODY, { receivedAt: now });
  const observations = [...observe(batch)].map((one) => priced(withinLimits(one), now));
  return { batch, observations };
}

function priced(observation: Observation, at: number): Observation {
  const { model, usage, details } = observation;
  if (model === null || usage === null) return observation;
  const cost = pricing({ model, usage, provider: details?.provider, source: 'otlp', at });
  if (cost === undefined || cost === 'unknown_price') return observation;
  return { ...observation, details: { ...details, cost } };
}

function open(file: string): DatabaseSync {
  const db = new DatabaseSync(file);
  db.exec(`PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    PRAGMA secure_delete = ON; PRAGMA cache_size = -16384`);
  return db;
}

function inTransaction(db: DatabaseSync, commit: Step, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  work();
  measured(commit, () => db.exec('COMMIT'));
}

type Writer = (batches: readonly Normalized[]) => void;

function storeIn(file: string): Writer {
  const db = open(file);
  migrateFile(db, STORE_MIGRATIONS);
  const operations = { ...traceOperations(db, { pricing: undefined }), ...rollupOperations(db) };
  const { 'rollups.toFold': toFold } = foldReadOperations(db);
  const { 'traces.group': group, 'traces.post': post } = postingOperations(db);
  const postStep = (step: () => boolean): boolean => {
    let hasMore = false;
    inTransaction(db, 'commit', () => {
      hasMore = measured('post', step);
    });
    return hasMore;
  };
  const foldStep = (): boolean => {
    const found = measured('fold', () => toFold(''));
    if (found === null) return false;
    inTransaction(db, 'commit', () => measured('fold', () => operations['rollups.fold'](found)));
    return true;
  };
  let groups = 0;
  return (batches) => {
    const calls = batches.map(({ batch, observations }) => {
      const rows = measured('rows', () => rowsOf(batch, observations, undefined));
      const { id: batchId, receivedAt, tenant } = batch;
      const about = { project: tenant.projectId, keyId: tenant.keyId, batchId, receivedAt };
      const more = { usageAt: receivedAt, parts: null, namesTraces: false, since: 0, gaps: [] };
      return [{ ...rows, ...about, ...more }, recordOf(batch)] as const;
    });
    inTransaction(db, 'commit', () => {
      measured('write', () => {
        for (const call of calls) operations['traces.write'](...call);
      });
    });
    if (++groups % ROUND_GROUPS !== 0) return;
    while (foldStep());
    while (postStep(group));
    while (postStep(post));
  };
}

function floorIn(file: string): Writer {
  const db = open(file);
  db.exec(`
    CREATE TABLE batches (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
    CREATE TABLE rows (
      trace TEXT, id TEXT, parent TEXT, name TEXT, kind TEXT, status TEXT, started INTEGER, ended INTEGER,
      model TEXT, usage TEXT, session TEXT, user TEXT, batch INTEGER, position INTEGER,
      PRIMARY KEY (trace, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX rows_by_time ON rows (started);
  `);
  const body = db.prepare('INSERT INTO batches (body) VALUES (?)');
  const row = db.prepare('INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)');
  const write = ({ batch, observations }: Normalized): void => {
    const { lastInsertRowid: number } = body.run(batch.body);
    for (const one of observations) {
      row.run(
        ...[one.traceId, one.id, one.parentId, one.name, one.kind, one.status],
        ...[one.startTime?.ms ?? null, one.endTime?.ms ?? null, one.model],
        ...[one.usage && JSON.stringify(one.usage), one.sessionId, one.userId, number, one.index],
      );
    }
  };
  return (batches) =>
    inTransaction(db, 'floor: commit', () => measured('floor', () => batches.forEach(write)));
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

const directory = mkdtempSync(join(tmpdir(), 'tracectl-storing-'));
try {
  const writers = [storeIn(join(directory, 'store.db')), floorIn(join(directory, 'floor.db'))];
  for (let number = 0; number < WARM_UP + BATCHES; number += GROUP) {
    if (number === WARM_UP) spent.clear();
    const group = Array.from({ length: GROUP }, (_, i) => normalized(number + i));
    for (const writer of writers) writer(group);
  }
  const spans = BATCHES * SPANS_A_BODY;
  print('| step | µs of CPU a span |');
  print('|---|---|');
  for (const step of STEPS) print(`| ${step} | ${((spent.get(step) ?? 0) / spans).toFixed(1)} |`);
} finally {
  rmSync(directory, { recursive: true, force: true });
}
