/** Writes rollups: every write inserts what it changes, and housekeeping adds it to the rows of hours and days. */
import type { Steps } from '../../../src/component/background.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import { addStored, DELTA_KINDS, RollupDelta } from '../../../src/store/rollups/delta.ts';
import type {
  RollupKey,
  RollupRow,
  RollupSums,
  RollupTable,
} from '../../../src/store/rollups/fold.ts';
import {
  DAY,
  foldChanges,
  HOUR,
  nameOfRollup,
  overflowOf,
  periodOf,
} from '../../../src/store/rollups/fold.ts';
import { addEncoded, encodeHistogram } from '../../../src/store/rollups/histogram.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient, Question, Statement } from '../connection/statement.ts';
import { question, row, rows } from '../connection/statement.ts';
import type { Column } from './columns.ts';
import { columnParameters, namesOf, unnest } from './columns.ts';
import { escapeText, textOrNull } from './text.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

/** Changes that one transaction adds. */
const STEP_CHANGES = 2_000;
/** Deltas that one transaction reads. */
const STEP_DELTAS = 500;
/** Rows that a step of a removal removes. */
const STEP_ROWS = 1_000;

/** Only inserts, so that several writers never wait for each other. */
export function insertDelta(project: string, delta: RollupDelta): Statement[] {
  return insertChanges(project, delta.changes());
}

function insertChanges(project: string, changes: readonly RollupChange[]): Statement[] {
  if (changes.length === 0) return [];
  return [
    [
      'INSERT INTO rollup_deltas (project, kind, changes) VALUES ($1, $2, $3)',
      [project, DELTA_KINDS.CHANGES, JSON.stringify(changes)],
    ],
  ];
}

/** Subtracts what traces contributed, before they are erased. Their rows are locked. */
export function subtractTraces(traces: readonly number[]): Statement {
  return [
    `INSERT INTO rollup_deltas (project, kind, changes)
     SELECT project, ${DELTA_KINDS.SUBTRACTED}, '[' || string_agg(rollup, ',') || ']' FROM traces
     WHERE n = ANY ($1::bigint[]) AND rollup IS NOT NULL GROUP BY project`,
    [traces],
  ];
}

/** Adds the deltas of all projects to their rows, in steps. */
export async function* foldRollups(database: Database): Steps {
  let after = '';
  while (true) {
    const next = await row<{ project: string | null }>(
      database,
      'SELECT min(project) AS project FROM rollup_deltas WHERE project > $1',
      [after],
    );
    const project = next?.project ?? null;
    if (project === null) return;
    after = project;
    while (await foldStep(database, project)) yield;
    yield;
  }
}

type DeltaRow = { readonly n: number; readonly kind: number; readonly changes: string };

/** An erasure folds too, so that no text of it waits for housekeeping. */
function lockOf(project: string): Question<void> {
  return question([LOCK, [lockName(project)]], () => {});
}

const LOCK = 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))';

function lockName(project: string): string {
  return `tracectl/rollups/${project}`;
}

function deltasOf(project: string): Question<readonly DeltaRow[]> {
  return question(
    [
      `SELECT n, kind, changes FROM rollup_deltas WHERE project = $1
       ORDER BY n LIMIT ${STEP_DELTAS}`,
      [project],
    ],
    (found: readonly DeltaRow[]) => found,
  );
}

/** Resolves with whether there may be more. */
export async function foldStep(database: Database, project: string): Promise<boolean> {
  return database.transaction(async (client) => {
    const [, deltas] = await client.together([lockOf(project), deltasOf(project)]);
    const last = deltas.at(-1);
    if (last === undefined) return false;
    const taken: number[] = [];
    const sum = new RollupDelta();
    let characters = 0;
    for (const { n, kind, changes } of deltas) {
      characters += changes.length;
      if (taken.length > 0 && characters > STEP_CHARACTERS) break;
      addStored(sum, { kind, text: changes });
      taken.push(n);
    }
    const changes = sum.changes();
    const rest = changes.splice(STEP_CHANGES);
    const { saved, removed } = foldChanges(changes, await loadTable(client, project, changes));
    await client.commit([
      ['DELETE FROM rollup_deltas WHERE project = $1 AND n = ANY ($2::bigint[])', [project, taken]],
      ...keepRest(project, taken[0] ?? 0, rest),
      ...removeRows(project, removed),
      ...saveRows(project, saved),
    ]);
    return rest.length > 0 || taken.length < deltas.length || deltas.length === STEP_DELTAS;
  });
}

/** Characters of the deltas that one step adds, beside the first one. */
const STEP_CHARACTERS = 1_048_576;

/** In the place of the deltas that it comes from: later ones may subtract it. */
function keepRest(project: string, n: number, rest: readonly RollupChange[]): Statement[] {
  if (rest.length === 0) return [];
  return [
    [
      'INSERT INTO rollup_deltas (project, n, kind, changes) VALUES ($1, $2, $3, $4)',
      [project, n, DELTA_KINDS.CHANGES, JSON.stringify(rest)],
    ],
  ];
}

type Block = Omit<RollupKey, 'value'>;

const BLOCK_COLUMNS: readonly Column<Block>[] = [
  { name: 'step', type: 'smallint', of: ({ step }) => step },
  { name: 'field', type: 'smallint', of: ({ field }) => field },
  { name: 'start', type: 'bigint', of: ({ start }) => start },
];
const KEY_COLUMNS: readonly Column<RollupKey>[] = [
  ...BLOCK_COLUMNS,
  { name: 'value', type: 'text', of: ({ value }) => escapeText(value) },
];
const NUMBER_NAMES = [
  ...(['traces', 'observations', 'errors', 'input', 'output', 'cached', 'cost'] as const),
];
const INTEGERS = 3;
const SUM_COLUMNS: readonly Column<RollupRow>[] = [
  ...KEY_COLUMNS,
  ...NUMBER_NAMES.map(
    (name, i): Column<RollupRow> => ({
      ...{ name, type: i < INTEGERS ? 'bigint' : 'float8', of: ({ numbers }) => numbers[i] ?? 0 },
    }),
  ),
  {
    name: 'latencies',
    type: 'bytea',
    of: ({ latencies }) => Buffer.from(encodeHistogram(latencies)),
  },
];
const KEY_NAMES = namesOf(KEY_COLUMNS);
const SUM_NAMES = namesOf(SUM_COLUMNS.slice(KEY_COLUMNS.length));
const SAVE_ROWS = `
  INSERT INTO rollups (project, ${KEY_NAMES}, ${SUM_NAMES})
  SELECT $1::text, g.* FROM ${unnest(SUM_COLUMNS, 2)} AS g
  ON CONFLICT (project, ${KEY_NAMES}) DO UPDATE SET
    ${[...NUMBER_NAMES, 'latencies'].map((name) => `${name} = excluded.${name}`).join(', ')}`;

function saveRows(project: string, saved: readonly RollupRow[]): Statement[] {
  if (saved.length === 0) return [];
  return [[SAVE_ROWS, [project, ...columnParameters(SUM_COLUMNS, saved)]]];
}

function removeRows(project: string, removed: readonly RollupKey[]): Statement[] {
  if (removed.length === 0) return [];
  return [
    [
      `DELETE FROM rollups r USING ${unnest(KEY_COLUMNS, 2)} AS g (${KEY_NAMES})
       WHERE r.project = $1 AND r.step = g.step AND r.field = g.field AND r.start = g.start
         AND r.value = g.value`,
      [project, ...columnParameters(KEY_COLUMNS, removed)],
    ],
  ];
}

type StoredRow = RollupKey &
  Readonly<Record<(typeof NUMBER_NAMES)[number], number>> & { readonly latencies: Buffer };

/** OFFSET keeps the planner from reading all rows of all projects, which it prefers up to a few hundred thousand of them. */
const FIND_ROWS = `
  SELECT ${KEY_COLUMNS.map(({ name }) => `r.${name}`).join(', ')}, ${SUM_NAMES}
  FROM ${unnest(KEY_COLUMNS, 2)} AS g (${KEY_NAMES})
  CROSS JOIN LATERAL (
    SELECT * FROM rollups
    WHERE project = $1 AND step = g.step AND field = g.field AND start = g.start AND value = g.value
    OFFSET 0) r`;

const BLOCK_NAMES = namesOf(BLOCK_COLUMNS);
const COUNT_VALUES = `
  SELECT ${BLOCK_NAMES}, (
    SELECT count(*) FROM rollups r WHERE r.project = $1 AND r.step = g.step AND r.field = g.field
      AND r.start = g.start) AS values
  FROM ${unnest(BLOCK_COLUMNS, 2)} AS g (${BLOCK_NAMES})`;

/** The rows that a fold of the changes asks for. */
async function loadTable(
  client: PostgresTransaction,
  project: string,
  changes: readonly RollupChange[],
): Promise<RollupTable> {
  const keys = new Map<string, RollupKey>();
  for (const [hour, field, value] of changes) {
    for (const step of [HOUR, DAY]) {
      const key = { step, field, start: periodOf(step, hour), value };
      keys.set(nameOfRollup(key), key);
      if (field > 0) keys.set(nameOfRollup(overflowOf(key)), overflowOf(key));
    }
  }
  const all = [...keys.values()];
  const found = await rows<StoredRow>(client, FIND_ROWS, [
    project,
    ...columnParameters(KEY_COLUMNS, all),
  ]);
  const stored = new Map(found.map((one) => [nameOfRollup(keyOf(one)), sumsOf(one)]));
  const isNew = (key: RollupKey): boolean => key.field > 0 && !stored.has(nameOfRollup(key));
  const values = await countValues(client, project, all.filter(isNew));
  return {
    find: (key) => stored.get(nameOfRollup(key)),
    valuesOf: (block) => values.get(nameOfBlock(block)) ?? 0,
  };
}

/** The number of values in each period to which a value is added. */
async function countValues(
  client: PostgresTransaction,
  project: string,
  added: readonly RollupKey[],
): Promise<ReadonlyMap<string, number>> {
  const blocks = new Map(added.map((key) => [nameOfBlock(key), key]));
  if (blocks.size === 0) return new Map();
  const counts = await rows<Block & { readonly values: number }>(client, COUNT_VALUES, [
    project,
    ...columnParameters(BLOCK_COLUMNS, [...blocks.values()]),
  ]);
  return new Map(counts.map((block) => [nameOfBlock(block), block.values]));
}

function nameOfBlock({ step, field, start }: Block): string {
  return nameOfRollup({ step, field, start, value: '' });
}

function keyOf({ step, field, start, value }: StoredRow): RollupKey {
  return { step, field, start, value: textOrNull(value) ?? '' };
}

function sumsOf(stored: StoredRow): RollupSums {
  const latencies = new Map<number, number>();
  addEncoded(latencies, stored.latencies);
  return { numbers: NUMBER_NAMES.map((name) => stored[name]), latencies };
}

/** Removes rollups of a deleted project. Resolves with whether there may be more. */
export async function removeRollupsStep(client: PostgresClient, project: string): Promise<boolean> {
  const remove = async (table: string): Promise<boolean> => {
    const { rows: removed } = await client.query(
      `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${table} WHERE project = $1 LIMIT ${STEP_ROWS})) RETURNING 1`,
      [project],
    );
    return removed.length === STEP_ROWS;
  };
  if (await remove('rollup_deltas')) return true;
  // A fold that has read the deltas ends before its rows are removed. A later fold finds no deltas.
  await client.query(LOCK, [lockName(project)]);
  return remove('rollups');
}
