import type { Key, ObservationRow } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { Question } from '../connection/statement.ts';
import { ask } from '../connection/statement.ts';
import type { Cell } from './cells.ts';
import {
  fromKey,
  fromStoredText,
  keyCell,
  OBSERVATION_CELLS,
  observationOfCells,
  rowOfCells,
  toKey,
  toStoredText,
} from './cells.ts';
import { columnOf, columnsOf, unnest } from './columns.ts';
import type { Entry, Facts, WaitingRun, Wanted } from './facts.ts';
import { placeName } from './facts.ts';
import { TRACE_CELLS } from './state.ts';

/** Of a key that stands in several traces, so many are looked at. */
const NEWEST_RUNS = 8;
/** A trace may expire between being made sure of and being locked, again and again. */
const LOCK_ATTEMPTS = 5;

const TRACE_COLUMNS = selectionOf(TRACE_CELLS, 't');
const OBSERVATION_COLUMNS = selectionOf(OBSERVATION_CELLS, 'o');
/** What a sum is made of. */
const SUMMED =
  'o.trace, o.key, o.n, o.parent, o.name, o.kind, o.status, o.start_ms, o.start_ns, ' +
  'o.end_ms, o.end_ns, o.usage';

/** `at`: when its first event came, in milliseconds since the epoch. */
export type TraceName = { readonly key: Key; readonly longId: string | null; readonly at: number };

export type Begin = {
  readonly project: string;
  readonly isAlone: boolean;
  readonly batchIds: readonly string[];
  /** How many of them it may insert. */
  readonly observations: number;
  readonly traces: number;
};

/** Numbers for what a write may insert, and which of its raw batches are here, which they are until the end. */
export type Beginning = {
  readonly batches: ReadonlySet<string>;
  readonly numbers: readonly number[];
  readonly traceNumbers: readonly number[];
};

/**
 * Locks the project, and tells what a write may use. Writes of one project go side by side; one that places
 * runs without a trace goes alone, because any other's rows could be the run, or the parent, that it looks for.
 */
export function begin({
  project,
  isAlone,
  batchIds,
  observations,
  traces,
}: Begin): Question<Beginning> {
  const lock = isAlone ? 'pg_advisory_xact_lock' : 'pg_advisory_xact_lock_shared';
  return {
    statement: [
      `WITH held AS (SELECT id FROM batches WHERE id = ANY ($1) FOR KEY SHARE)
       SELECT ${lock}(hashtextextended($4, 0)), ARRAY(SELECT id FROM held) AS batches,
         to_json(ARRAY(
           SELECT nextval('observation_numbers') FROM generate_series(1, $2::integer))) AS numbers,
         to_json(ARRAY(
           SELECT nextval('trace_numbers') FROM generate_series(1, $3::integer))) AS trace_numbers`,
      [batchIds, observations, traces, `tracectl/runs/${project}`],
    ],
    answer: ({ rows: [row] }) => ({
      batches: new Set((row?.batches ?? []) as string[]),
      numbers: (row?.numbers ?? []) as number[],
      traceNumbers: (row?.trace_numbers ?? []) as number[],
    }),
  };
}

/** Whether any observation of the project is waited for. */
export function someWait(project: string): Question<boolean> {
  return {
    statement: [
      `SELECT EXISTS (SELECT 1 FROM pending_updates WHERE project = $1)
         OR EXISTS (SELECT 1 FROM waiting_children WHERE project = $1) AS some`,
      [project],
    ],
    answer: ({ rows: [row] }) => row?.some === true,
  };
}

/** Whether one of these observations is waited for: by updates of it, by its children, or as a child. */
export async function isWaitedFor(
  client: PostgresTransaction,
  project: string,
  keys: readonly Key[],
): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT EXISTS (SELECT 1 FROM pending_updates WHERE project = $1 AND key = ANY ($2::bytea[]))
       OR EXISTS (SELECT 1 FROM waiting_children WHERE project = $1 AND key = ANY ($2::bytea[]))
       OR EXISTS (SELECT 1 FROM waiting_children WHERE project = $1 AND parent = ANY ($2::bytea[])) AS some`,
    [project, columnOf('bytea', keys.map(keyCell))],
  );
  return rows[0]?.some === true;
}

/**
 * Locks traces that `addTraces` found, in the order of their keys, so that two writes never wait for each
 * other; those that went meanwhile are made anew.
 */
export async function lockNamed(
  client: PostgresTransaction,
  project: string,
  names: readonly TraceName[],
  facts: Facts,
): Promise<void> {
  const unlocked = () => names.filter(({ key }) => !facts.numbers.has(nameOfKey(key)));
  for (let attempt = 0; unlocked().length > 0; attempt++) {
    if (attempt === LOCK_ATTEMPTS) throw new Error('traces are removed as fast as they are made');
    const keys = unlocked().map(({ key }) => key);
    await lockTraces(client, project, keys, facts);
    const gone = unlocked();
    if (gone.length > 0) await ask(client, addTraces(project, gone, facts));
  }
}

const NAME_CELLS = [
  ['key', 'bytea'],
  ['long_id', 'text'],
  ['at', 'bigint'],
] as const;

/** Makes those that are not there, and notes them; nothing is in them. */
export function addTraces(
  project: string,
  names: readonly TraceName[],
  facts: Facts,
): Question<void> {
  return {
    statement: [
      `INSERT INTO traces AS t (project, key, long_id, at_ms, at_ns, observations, created_at, updated_at)
       SELECT $1, g.key, g.long_id, g.at, 0, 0, g.at, g.at
       FROM ${unnest(NAME_CELLS, 2)} AS g (key, long_id, at) ORDER BY g.key
       ON CONFLICT (project, key) DO NOTHING
       RETURNING t.n, t.key, t.created_at`,
      [
        project,
        ...columnsOf(
          NAME_CELLS,
          names.map(({ key, longId, at }) => [keyCell(key), longId && toStoredText(longId), at]),
        ),
      ],
    ],
    answer({ rows }) {
      for (const row of rows) facts.empty.set(addName(row, facts), Number(row.created_at));
    },
  };
}

async function lockTraces(
  client: PostgresTransaction,
  project: string,
  keys: readonly Key[],
  facts: Facts,
): Promise<void> {
  const { rows } = await client.query(
    `SELECT ${TRACE_COLUMNS}, t.key FROM traces t WHERE t.project = $1 AND t.key = ANY ($2)
     ORDER BY t.key FOR UPDATE`,
    [project, keys.map(toKey)],
  );
  for (const row of rows) addTrace(row, facts);
}

type Found = Readonly<Record<string, unknown>>;

function addTrace(row: Found, facts: Facts): void {
  facts.traces.set(addName(row, facts), cellsOf(row, TRACE_CELLS));
}

function addName(row: Found, facts: Facts): number {
  const n = Number(row.n);
  facts.numbers.set(nameOfKey(fromKey(row.key as Buffer)), n);
  return n;
}

/** Reads what is wanted into `facts`: a statement for each kind of thing. */
export async function loadSnapshot(
  client: PostgresTransaction,
  project: string,
  wanted: Wanted,
  facts: Facts,
): Promise<void> {
  await loadNumbers(client, project, wanted, facts);
  await loadEntries(client, wanted, facts);
  await loadRuns(client, project, wanted, facts);
  await loadPending(client, project, wanted, facts);
  await loadWaiting(client, project, wanted, facts);
  await loadChildren(client, project, wanted, facts);
  await loadWhole(client, wanted, facts);
  await loadTraces(client, wanted, facts);
}

async function loadNumbers(
  client: PostgresTransaction,
  project: string,
  { numbers }: Wanted,
  facts: Facts,
): Promise<void> {
  if (numbers.size === 0) return;
  await lockTraces(client, project, [...numbers.values()], facts);
  for (const name of numbers.keys()) {
    if (!facts.numbers.has(name)) facts.numbers.set(name, null);
  }
}

const ENTRY_CELLS = [
  ['trace', 'bigint'],
  ['key', 'bytea'],
] as const;

async function loadEntries(
  client: PostgresTransaction,
  { entries }: Wanted,
  facts: Facts,
): Promise<void> {
  if (entries.size === 0) return;
  const places = [...entries.values()];
  const { rows } = await client.query(
    `SELECT ${OBSERVATION_COLUMNS} FROM ${unnest(ENTRY_CELLS, 1)} AS g (trace, key)
     JOIN observations o ON o.trace = g.trace AND o.key = g.key`,
    columnsOf(
      ENTRY_CELLS,
      places.map(([trace, key]) => [trace, keyCell(key)]),
    ),
  );
  for (const name of entries.keys()) facts.entries.set(name, null);
  for (const row of rows) addEntry(row, facts);
}

function addEntry(row: Found, facts: Facts): Entry {
  const { trace, n, row: cells, state } = observationOfCells(cellsOf(row, OBSERVATION_CELLS));
  const place = placeName(trace, cells[0]);
  const known = facts.entries.get(place);
  if (known !== undefined && known !== null) return known;
  const entry: Entry = { n, key: cells[0], trace, row: cells, state };
  facts.entries.set(place, entry);
  return entry;
}

async function loadRuns(
  client: PostgresTransaction,
  project: string,
  wanted: Wanted,
  facts: Facts,
): Promise<void> {
  if (wanted.runs.size === 0) return;
  const { rows } = await client.query(
    `SELECT ${OBSERVATION_COLUMNS} FROM unnest($2::bytea[]) AS g (key)
     CROSS JOIN LATERAL (
       SELECT o.* FROM observations o JOIN traces t ON t.n = o.trace
       WHERE o.project = $1 AND o.key = g.key AND substr(o.key, 1, 1) <> '\\x3a'::bytea
         AND t.project = $1
       ORDER BY o.n DESC LIMIT ${NEWEST_RUNS}
     ) o`,
    [project, [...wanted.runs.values()].map(toKey)],
  );
  const found = new Map<string, Entry[]>([...wanted.runs.keys()].map((name) => [name, []]));
  for (const row of rows) {
    const entry = addEntry(row, facts);
    found.get(nameOfKey(entry.key))?.push(entry);
    if (!facts.traces.has(entry.trace)) wanted.traces.add(entry.trace);
  }
  for (const [name, entries] of found) facts.runs.set(name, entries);
}

async function loadPending(
  client: PostgresTransaction,
  project: string,
  { pending }: Wanted,
  facts: Facts,
): Promise<void> {
  if (pending.size === 0) return;
  const { rows } = await client.query(
    `SELECT key, batch, cells, received_at FROM pending_updates
     WHERE project = $1 AND key = ANY ($2) ORDER BY batch, position`,
    [project, [...pending.values()].map(toKey)],
  );
  for (const name of pending.keys()) facts.pending.set(name, []);
  for (const found of rows) {
    const key = fromKey(found.key as Buffer);
    const row: ObservationRow = rowOfCells(key, JSON.parse(String(found.cells)) as Cell[]);
    const at = Number(found.received_at);
    const state = { batch: String(found.batch), createdAt: at, updatedAt: at, merged: null };
    const name = nameOfKey(key);
    facts.pending.set(name, [...(facts.pending.get(name) ?? []), [row, state]]);
  }
}

async function loadWaiting(
  client: PostgresTransaction,
  project: string,
  { waiting }: Wanted,
  facts: Facts,
): Promise<void> {
  if (waiting.size === 0) return;
  const { rows } = await client.query(
    'SELECT key, parent FROM waiting_children WHERE project = $1 AND key = ANY ($2)',
    [project, [...waiting.values()].map(toKey)],
  );
  for (const name of waiting.keys()) facts.waiting.set(name, null);
  for (const row of rows) {
    const run = waitingRun(row);
    facts.waiting.set(nameOfKey(run.key), run);
  }
}

async function loadChildren(
  client: PostgresTransaction,
  project: string,
  { children }: Wanted,
  facts: Facts,
): Promise<void> {
  if (children.size === 0) return;
  const { rows } = await client.query(
    'SELECT key, parent FROM waiting_children WHERE project = $1 AND parent = ANY ($2) ORDER BY key',
    [project, [...children.values()].map(toKey)],
  );
  for (const name of children.keys()) facts.children.set(name, []);
  for (const row of rows) {
    const run = waitingRun(row);
    const name = nameOfKey(run.parent);
    facts.children.set(name, [...(facts.children.get(name) ?? []), run]);
  }
}

function waitingRun(row: Found): WaitingRun {
  return { key: fromKey(row.key as Buffer), parent: fromKey(row.parent as Buffer) };
}

async function loadWhole(
  client: PostgresTransaction,
  { whole }: Wanted,
  facts: Facts,
): Promise<void> {
  if (whole.size === 0) return;
  const { rows } = await client.query(
    `SELECT ${SUMMED} FROM observations o WHERE o.trace = ANY ($1::bigint[])`,
    [[...whole]],
  );
  const found = new Map<number, Entry[]>([...whole].map((trace) => [trace, []]));
  for (const row of rows) {
    const entry = summedEntry(row);
    found.get(entry.trace)?.push(entry);
  }
  for (const [trace, entries] of found) facts.whole.set(trace, entries);
}

/** An entry for sums alone: the rest of it was not read. */
function summedEntry(row: Found): Entry {
  const key = fromKey(row.key as Buffer);
  const [trace, n] = [Number(row.trace), Number(row.n)];
  const cell = (name: string): number | null => (row[name] === null ? null : Number(row[name]));
  const text = (name: string): string | null =>
    row[name] === null ? null : fromStoredText(String(row[name]));
  return {
    ...{ n, key, trace },
    row: [
      ...([key, null, 0, 0, 0, text('parent'), text('name'), cell('kind')] as const),
      ...([cell('status'), cell('start_ms'), cell('start_ns'), cell('end_ms')] as const),
      ...([cell('end_ns'), null, text('usage'), null, null, null, null, null] as const),
    ],
    state: { batch: '', createdAt: 0, updatedAt: 0, merged: null },
  };
}

async function loadTraces(
  client: PostgresTransaction,
  { traces }: Wanted,
  facts: Facts,
): Promise<void> {
  if (traces.size === 0) return;
  const { rows } = await client.query(
    `SELECT ${TRACE_COLUMNS}, t.key FROM traces t WHERE t.n = ANY ($1::bigint[])
     ORDER BY t.key FOR UPDATE`,
    [[...traces]],
  );
  for (const row of rows) addTrace(row, facts);
  // Removed since it was seen in a row of its own: the write is done again from the start.
  if (rows.length < traces.size) throw new TraceGone();
}

export class TraceGone extends Error {
  override readonly name = 'TraceGone';
}

function selectionOf(
  cells: readonly (readonly [name: string, type: string])[],
  of: string,
): string {
  return cells.map(([name]) => `${of}.${name}`).join(', ');
}

function cellsOf(row: Found, cells: readonly (readonly [name: string, type: string])[]): Cell[] {
  return cells.map(([name]) => row[name] as Cell);
}
