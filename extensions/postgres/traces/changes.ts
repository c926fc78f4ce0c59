import type { Statement } from '../connection/statement.ts';
import type { Cell } from './cells.ts';
import {
  keyCell,
  OBSERVATION_CELLS,
  observationCells,
  rowCells,
  toKey,
  toStoredText,
} from './cells.ts';
import { type CellTypes, columnOf, columnsOf, unnest } from './columns.ts';
import type { Entry } from './facts.ts';
import { TRACE_CELLS } from './state.ts';
import type { WorkingSet } from './working-set.ts';

const COLUMNS = namesOf(OBSERVATION_CELLS).join(', ');
/** $1 the traces they stand in before. */
const CHANGE = `
  UPDATE observations o SET ${namesOf(OBSERVATION_CELLS)
    .map((name) => `${name} = g.${name}`)
    .join(', ')}
  FROM ${unnest(OBSERVATION_CELLS, 2, '$1::bigint[]')} AS g (before, ${COLUMNS})
  WHERE o.trace = g.before AND o.key = g.key`;
/** Of a trace that a write makes. */
const NEW_CELLS = [
  ['n', 'bigint'],
  ['key', 'bytea'],
  ['long_id', 'text'],
  ['at', 'bigint'],
] as const;
const PAIR_CELLS = [
  ['batch', 'text'],
  ['trace', 'bigint'],
] as const;
const TRACE_COLUMNS = namesOf(TRACE_CELLS);
const SET_TRACE = TRACE_COLUMNS.filter((name) => name !== 'n')
  .map((name) => `${name} = g.${name}`)
  .join(', ');
/** New observations, pairs and sums in one statement: a round trip costs more than they do. $1 is the project. */
const SAVE = `
  WITH inserted AS (
    INSERT INTO observations (project, ${COLUMNS})
    SELECT $1::text, g.* FROM ${unnest(OBSERVATION_CELLS, 2)} AS g
  ), paired AS (
    INSERT INTO batch_traces (batch, trace)
    SELECT * FROM ${unnest(PAIR_CELLS, 2 + OBSERVATION_CELLS.length)}
    ON CONFLICT DO NOTHING
  )
  UPDATE traces t SET ${SET_TRACE}
  FROM ${unnest(TRACE_CELLS, 2 + OBSERVATION_CELLS.length + PAIR_CELLS.length)}
    AS g (${TRACE_COLUMNS.join(', ')}) WHERE t.n = g.n`;

/** What a working set says, as statements, one for each kind of change. */
export function changesOf(project: string, set: WorkingSet): Statement[] {
  const { inserted, changed, removed } = set.changes();
  return [
    ...newTraces(project, set),
    ...removal(removed),
    ...change(changed),
    save(project, inserted, set),
    ...pendingUpdates(project, set),
    ...waitingChildren(project, set),
    ...removedTraces(set),
  ];
}

function newTraces(project: string, set: WorkingSet): Statement[] {
  const traces = [...set.newTraces.values()].filter(({ n }) => !set.removedTraces.includes(n));
  if (traces.length === 0) return [];
  const cells = traces.map(({ n, key, longId, at }) => [
    ...[n, keyCell(key)],
    ...[longId && toStoredText(longId), at],
  ]);
  return [
    [
      `INSERT INTO traces
         (project, n, key, long_id, at_ms, at_ns, observations, created_at, updated_at)
       SELECT $1, g.n, g.key, g.long_id, g.at, 0, 0, g.at, g.at
       FROM ${unnest(NEW_CELLS, 2)} AS g (n, key, long_id, at)`,
      [project, ...columnsOf(NEW_CELLS, cells)],
    ],
  ];
}

function removal(removed: readonly Entry[]): Statement[] {
  if (removed.length === 0) return [];
  return [
    [
      `DELETE FROM observations o USING unnest($1::bigint[], $2::bytea[]) AS g (trace, key)
       WHERE o.trace = g.trace AND o.key = g.key`,
      [removed.map(({ trace }) => trace), removed.map(({ key }) => toKey(key))],
    ],
  ];
}

function change(changed: readonly { readonly before: Entry; readonly now: Entry }[]): Statement[] {
  if (changed.length === 0) return [];
  const before = changed.map((entry) => entry.before.trace);
  const now = changed.map((entry) => cellsOf(entry.now));
  return [[CHANGE, [columnOf('bigint', before), ...columnsOf(OBSERVATION_CELLS, now)]]];
}

function save(project: string, inserted: readonly Entry[], set: WorkingSet): Statement {
  return [
    SAVE,
    [
      project,
      ...columnsOf(OBSERVATION_CELLS, inserted.map(cellsOf)),
      ...columnsOf(PAIR_CELLS, [...set.pairs.values()]),
      ...columnsOf(TRACE_CELLS, set.changedTraces()),
    ],
  ];
}

function pendingUpdates(project: string, set: WorkingSet): Statement[] {
  const statements: Statement[] = [];
  if (set.takenPending.length > 0) {
    statements.push([
      'DELETE FROM pending_updates WHERE project = $1 AND key = ANY ($2)',
      [project, set.takenPending.map(toKey)],
    ]);
  }
  if (set.addedPending.length > 0) {
    statements.push([
      `INSERT INTO pending_updates (project, key, batch, position, cells, received_at)
       SELECT $1, g.* FROM unnest($2::bytea[], $3::text[], $4::integer[], $5::text[], $6::bigint[]) AS g
       ON CONFLICT DO NOTHING`,
      [
        project,
        set.addedPending.map(([row]) => toKey(row[0])),
        set.addedPending.map(([, state]) => state.batch),
        set.addedPending.map(([row]) => row[2]),
        set.addedPending.map(([row]) => JSON.stringify(rowCells(row))),
        set.addedPending.map(([, state]) => state.createdAt),
      ],
    ]);
  }
  return statements;
}

function waitingChildren(project: string, set: WorkingSet): Statement[] {
  const statements: Statement[] = [];
  if (set.droppedWaiting.size > 0) {
    statements.push([
      'DELETE FROM waiting_children WHERE project = $1 AND key = ANY ($2)',
      [project, [...set.droppedWaiting.values()].map(toKey)],
    ]);
  }
  const added = [...set.addedWaiting.values()];
  if (added.length > 0) {
    statements.push([
      `INSERT INTO waiting_children (project, key, parent, received_at)
       SELECT $1, g.* FROM unnest($2::bytea[], $3::bytea[], $4::bigint[]) AS g
       ON CONFLICT (project, key)
         DO UPDATE SET parent = excluded.parent, received_at = excluded.received_at`,
      [
        project,
        added.map(({ key }) => toKey(key)),
        added.map(({ parent }) => toKey(parent)),
        added.map(({ receivedAt }) => receivedAt),
      ],
    ]);
  }
  return statements;
}

/** Traces whose observations moved to others, which get their batches. */
function removedTraces(set: WorkingSet): Statement[] {
  const statements = set.copiedPairs.map(
    ([from, to]): Statement => [
      `INSERT INTO batch_traces SELECT batch, $2 FROM batch_traces WHERE trace = $1
       ON CONFLICT DO NOTHING`,
      [from, to],
    ],
  );
  if (set.removedTraces.length > 0) {
    statements.push([
      `WITH pairs AS (DELETE FROM batch_traces WHERE trace = ANY ($1::bigint[]))
       DELETE FROM traces WHERE n = ANY ($1::bigint[])`,
      [set.removedTraces],
    ]);
  }
  return statements;
}

function namesOf(cells: CellTypes): string[] {
  return cells.map(([name]) => name);
}

function cellsOf({ trace, n, row, state }: Entry): Cell[] {
  return observationCells(trace, n, row, state);
}
