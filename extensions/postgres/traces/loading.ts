/** Reads a `ReadSet` into a snapshot: one statement for each kind of row. */
import type { CopyKey } from '../../../src/store/rows/copies.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';
import { MAX_COPIES } from '../../../src/store/rows/observation-write.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import { rows } from '../connection/statement.ts';
import type { Column } from './columns.ts';
import { columnParameters, unnest } from './columns.ts';
import { lockTracesByKey, lockTracesByNumber } from './locking.ts';
import { daysOfTraces } from './numbers.ts';
import type { ObservationTableRow, SummarizedTableRow } from './rows.ts';
import {
  entryOf,
  OBSERVATION_COLUMNS,
  rowOfJson,
  SUMMARIZED_COLUMNS,
  summarizedEntryOf,
} from './rows.ts';
import type { Entry, ReadSet, Snapshot, WaitingRun } from './snapshot.ts';
import { placeName } from './snapshot.ts';
import { bytesOfKey, keyOfBytes, keyParameter } from './text.ts';

/** A key may occur in several traces; so many of its newest observations are read. */
const NEWEST_RUNS = 8;

const OBSERVATION_CELLS = OBSERVATION_COLUMNS.map(({ name }) => `o.${name}`).join(', ');

export async function load(
  client: PostgresTransaction,
  project: string,
  wanted: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  await loadNumbers(client, project, wanted, snapshot);
  await loadEntries(client, wanted, snapshot);
  await loadRuns(client, project, wanted, snapshot);
  await loadCopies(client, project, wanted, snapshot);
  await loadPending(client, project, wanted, snapshot);
  await loadWaiting(client, project, wanted, snapshot);
  await loadChildren(client, project, wanted, snapshot);
  await loadWhole(client, wanted, snapshot);
  if (wanted.traces.size > 0) await lockTracesByNumber(client, wanted.traces, snapshot);
}

async function loadNumbers(
  client: PostgresTransaction,
  project: string,
  { numbers }: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (numbers.size === 0) return;
  await lockTracesByKey(client, project, [...numbers.values()], snapshot);
  for (const name of numbers.keys()) {
    if (!snapshot.numbers.has(name)) snapshot.numbers.set(name, null);
  }
}

const PLACE_COLUMNS: readonly Column<Pick<Entry, 'trace' | 'key'>>[] = [
  { name: 'trace', type: 'bigint', of: ({ trace }) => trace },
  { name: 'key', type: 'bytea', of: ({ key }) => keyParameter(key) },
];

async function loadEntries(
  client: PostgresTransaction,
  { entries }: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (entries.size === 0) return;
  const places = [...entries.values()];
  const found = await rows<ObservationTableRow>(
    client,
    `SELECT ${OBSERVATION_CELLS} FROM ${unnest(PLACE_COLUMNS, 1)} AS g (trace, key)
     JOIN observations o ON o.trace = g.trace AND o.key = g.key
     WHERE o.trace >= $3 AND o.trace < $4`,
    [...columnParameters(PLACE_COLUMNS, places), ...daysOfTraces(places.map(({ trace }) => trace))],
  );
  for (const name of entries.keys()) snapshot.entries.set(name, null);
  for (const row of found) noteEntry(row, snapshot);
}

function noteEntry(row: ObservationTableRow, snapshot: Snapshot): Entry {
  const entry = entryOf(row);
  const place = placeName(entry.trace, entry.key);
  const known = snapshot.entries.get(place);
  if (known !== undefined && known !== null) return known;
  snapshot.entries.set(place, entry);
  return entry;
}

async function loadRuns(
  client: PostgresTransaction,
  project: string,
  wanted: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (wanted.runs.size === 0) return;
  const newest = await rows<ObservationTableRow>(
    client,
    `SELECT ${OBSERVATION_CELLS} FROM unnest($2::bytea[]) AS g (key)
     CROSS JOIN LATERAL (
       SELECT o.* FROM observations o JOIN traces t ON t.n = o.trace
       WHERE o.project = $1 AND o.key = g.key AND substr(o.key, 1, 1) <> '\\x3a'::bytea
         AND t.project = $1
       ORDER BY o.n DESC LIMIT ${NEWEST_RUNS}
     ) o`,
    [project, keysOf(wanted.runs)],
  );
  const found = new Map<string, Entry[]>([...wanted.runs.keys()].map((name) => [name, []]));
  for (const row of newest) {
    const entry = noteEntry(row, snapshot);
    found.get(nameOfKey(entry.key))?.push(entry);
    if (!snapshot.traces.has(entry.trace)) wanted.traces.add(entry.trace);
  }
  for (const [name, entries] of found) snapshot.runs.set(name, entries);
}

async function loadCopies(
  client: PostgresTransaction,
  project: string,
  wanted: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (wanted.copies.size === 0) return;
  const copies = await rows<ObservationTableRow & { readonly copy: CopyKey }>(
    client,
    `SELECT ${OBSERVATION_CELLS}, o.copy FROM unnest($2::text[]) AS g (copy)
     CROSS JOIN LATERAL (
       SELECT o.* FROM observations o JOIN traces t ON t.n = o.trace
       WHERE o.project = $1 AND o.copy = g.copy AND t.project = $1 LIMIT ${MAX_COPIES}
     ) o`,
    [project, [...wanted.copies]],
  );
  const found = new Map<CopyKey, Entry[]>([...wanted.copies].map((copy) => [copy, []]));
  for (const row of copies) {
    found.get(row.copy)?.push(noteEntry(row, snapshot));
    if (!snapshot.traces.has(row.trace)) wanted.traces.add(row.trace);
  }
  for (const [copy, entries] of found) snapshot.copies.set(copy, entries);
}

type PendingRow = {
  readonly key: Buffer;
  readonly batch: string;
  readonly cells: string;
  readonly received_at: number;
};

async function loadPending(
  client: PostgresTransaction,
  project: string,
  { pending }: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (pending.size === 0) return;
  const updates = await rows<PendingRow>(
    client,
    `SELECT key, batch, cells, received_at FROM pending_updates
     WHERE project = $1 AND key = ANY ($2) ORDER BY batch, position`,
    [project, keysOf(pending)],
  );
  for (const name of pending.keys()) snapshot.pending.set(name, []);
  for (const { key: bytes, batch, cells, received_at: at } of updates) {
    const key = keyOfBytes(bytes);
    const state = { batch, createdAt: at, updatedAt: at, merged: null };
    const name = nameOfKey(key);
    const earlier = snapshot.pending.get(name) ?? [];
    snapshot.pending.set(name, [...earlier, { row: rowOfJson(key, cells), state }]);
  }
}

type WaitingRow = { readonly key: Buffer; readonly parent: Buffer };

async function loadWaiting(
  client: PostgresTransaction,
  project: string,
  { waiting }: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (waiting.size === 0) return;
  const runs = await rows<WaitingRow>(
    client,
    'SELECT key, parent FROM waiting_children WHERE project = $1 AND key = ANY ($2)',
    [project, keysOf(waiting)],
  );
  for (const name of waiting.keys()) snapshot.waiting.set(name, null);
  for (const run of runs.map(waitingRunOf)) snapshot.waiting.set(nameOfKey(run.key), run);
}

async function loadChildren(
  client: PostgresTransaction,
  project: string,
  { children }: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (children.size === 0) return;
  const runs = await rows<WaitingRow>(
    client,
    'SELECT key, parent FROM waiting_children WHERE project = $1 AND parent = ANY ($2) ORDER BY key',
    [project, keysOf(children)],
  );
  for (const name of children.keys()) snapshot.children.set(name, []);
  for (const run of runs.map(waitingRunOf)) {
    const name = nameOfKey(run.parent);
    snapshot.children.set(name, [...(snapshot.children.get(name) ?? []), run]);
  }
}

function keysOf(keys: ReadonlyMap<string, Key>): Buffer[] {
  return [...keys.values()].map(bytesOfKey);
}

function waitingRunOf({ key, parent }: WaitingRow): WaitingRun {
  return { key: keyOfBytes(key), parent: keyOfBytes(parent) };
}

async function loadWhole(
  client: PostgresTransaction,
  { whole }: ReadSet,
  snapshot: Snapshot,
): Promise<void> {
  if (whole.size === 0) return;
  const observations = await rows<SummarizedTableRow>(
    client,
    `SELECT ${SUMMARIZED_COLUMNS.join(', ')} FROM observations WHERE trace = ANY ($1::bigint[])`,
    [[...whole]],
  );
  const found = new Map<number, Entry[]>([...whole].map((trace) => [trace, []]));
  for (const row of observations) found.get(row.trace)?.push(summarizedEntryOf(row));
  for (const [trace, entries] of found) snapshot.whole.set(trace, entries);
}
