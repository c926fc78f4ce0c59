/** Reads rollups. A read is a transaction with one snapshot, so it has each change once: in a row, or as a change. */
import type { Dialect } from '../../../src/store/plan/dialect.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { successorOf } from '../../../src/store/plan/successor.ts';
import type { RollupChange } from '../../../src/store/rollups/contribution.ts';
import type {
  ContributedRow,
  ContributionStep,
} from '../../../src/store/rollups/contribution-page.ts';
import {
  CONTRIBUTED_COLUMNS,
  contributedBytes,
} from '../../../src/store/rollups/contribution-page.ts';
import { storedChanges } from '../../../src/store/rollups/delta.ts';
import { ROLLUP_FIELDS } from '../../../src/store/rollups/fields.ts';
import type {
  FacetAsked,
  FacetPart,
  FacetRow,
  RollupSpan,
  StatsAsked,
  StatsRow,
  StatsRows,
} from '../../../src/store/rollups/reading.ts';
import { FacetSum, StatsSum, spansOf, statsSpans } from '../../../src/store/rollups/reading.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient, Question, Statement } from '../connection/statement.ts';
import { question, rows } from '../connection/statement.ts';
import type { PackedRows } from './packed-rows.ts';
import { eachPacked, packedCells, packedTogether } from './packed-rows.ts';
import { readStep } from './step-reading.ts';
import { escapeText, textOrNull } from './text.ts';

type Database = Pick<Postgres, 'transaction'>;

const SNAPSHOT = question(
  ['SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY', []],
  () => undefined,
);
const PENDING = 'SELECT kind, changes FROM rollup_deltas WHERE project = $1 ORDER BY n';

type PendingRow = { readonly kind: number; readonly changes: string };

/** The changes that are not in the rows yet. */
function changesOf(project: string): Question<readonly RollupChange[]> {
  return question([PENDING, [project]], (found: readonly PendingRow[]) =>
    found.flatMap(({ kind, changes }) => storedChanges(kind, changes)),
  );
}

/**
 * The most used values are found where the rows are: a month has twenty thousand sessions, and an answer fifty. A change that is not in
 * the rows yet can bring its value among them, so the values of changes come in any case.
 */
export async function readFacet(
  database: Database,
  project: string,
  asked: FacetAsked,
): Promise<Omit<FacetPart, 'spentMs'>> {
  const sum = new FacetSum(asked);
  const field = ROLLUP_FIELDS[asked.field];
  const spans = spansOf(asked.hours);
  await database.transaction(async (client) => {
    const [, changes] = await client.together([SNAPSHOT, changesOf(project)]);
    const changed = new Set<string>();
    for (const change of changes) if (sum.isAbout(change)) changed.add(change[2]);
    const named = question(
      facetStatement(project, asked, spans, [...changed]),
      (found: readonly FacetRows[]) => {
        eachPacked(found, (cells) => sum.add(cells.text() ?? '', cells.number()));
        sum.leave((found[0]?.known ?? 0) - sum.size);
      },
    );
    const others = question(
      othersStatement(project, field, spans),
      (found: readonly OthersRow[]) => {
        for (const { start, value, traces } of found) sum.addOthers(start, value, traces);
      },
    );
    await client.together([named, others]);
    for (const change of changes) sum.addChange(change);
    const undecided = sum.undecided();
    if (undecided.length > 0) {
      for (const one of await ownRows(client, project, field, undecided)) sum.addOwn(one);
    }
  });
  return sum.part();
}

/** `known`: the number of values in the rows. */
type FacetRows = PackedRows & { readonly known: number };

const FACET_CELLS = packedCells(['value', 'traces']);

function facetStatement(
  project: string,
  { field, prefix, most }: FacetAsked,
  spans: readonly RollupSpan[],
  changed: readonly string[],
): Statement {
  const values: unknown[] = [project, ROLLUP_FIELDS[field], most ?? null, changed.map(escapeText)];
  const first = escapeText(prefix);
  const behind = successorOf(first);
  let matching = '';
  if (first !== '') matching += ` AND value >= $${values.push(first)}`;
  if (behind !== undefined) matching += ` AND value < $${values.push(behind)}`;
  const rowsOfSpans = spanRows('value, traces', spans, values, matching);
  return [
    `WITH sums AS MATERIALIZED (
       SELECT value, sum(traces)::bigint AS traces FROM (${rowsOfSpans}) r GROUP BY value)
     SELECT (SELECT count(*) FROM sums) AS known, p.packed FROM (${packedTogether(
       `SELECT ${FACET_CELLS} FROM (SELECT * FROM sums ORDER BY traces DESC, value
          LIMIT $3::bigint + cardinality($4::text[])) top
        UNION SELECT ${FACET_CELLS} FROM sums WHERE value = ANY ($4)`,
     )}) p`,
    values,
  ];
}

type OthersRow = { readonly start: number; readonly value: string; readonly traces: number };

function othersStatement(project: string, field: number, spans: readonly RollupSpan[]): Statement {
  const values: unknown[] = [project, -field];
  return [spanRows('start, value, traces', spans, values), values];
}

/** Those of the rows that the table has. OFFSET 0 keeps the planner from reading the whole periods. */
async function ownRows(
  client: PostgresClient,
  project: string,
  field: number,
  wanted: readonly FacetRow[],
): Promise<Pick<FacetRow, 'start' | 'value'>[]> {
  const found = await rows<{ readonly start: number; readonly value: string }>(
    client,
    `SELECT g.start, g.value FROM unnest($3::smallint[], $4::bigint[], $5::text[]) AS g (step, start, value)
     CROSS JOIN LATERAL (
       SELECT 1 FROM rollups WHERE project = $1 AND step = g.step AND field = $2 AND start = g.start
         AND value = g.value OFFSET 0) r`,
    [
      ...[project, field, wanted.map(({ step }) => step), wanted.map(({ start }) => start)],
      wanted.map(({ value }) => escapeText(value)),
    ],
  );
  return found.map(({ start, value }) => ({ start, value: textOrNull(value) ?? '' }));
}

/** The rows of the field $2 of the project $1; adds the parameters of the spans. */
function spanRows(
  columns: string,
  spans: readonly RollupSpan[],
  values: unknown[],
  matching = '',
): string {
  const ofSpan = ({ step, from, to }: RollupSpan): string =>
    `SELECT ${columns} FROM rollups WHERE project = $1 AND field = $2 AND step = $${values.push(step)}
       AND start >= $${values.push(from)} AND start < $${values.push(to)}${matching}`;
  return spans.map(ofSpan).join(' UNION ALL ');
}

export async function readStats(
  database: Database,
  project: string,
  asked: StatsAsked,
): Promise<StatsRows> {
  const sum = new StatsSum(asked);
  const field = ROLLUP_FIELDS[asked.field];
  const stats = (statement: Statement, of: number): Question<void> =>
    question(statement, ([found]: readonly StatsBytes[]) => {
      for (const one of statsRows(of, found?.bytes ?? NO_BYTES)) sum.addRow(one);
    });
  await readTogether(database, project, sum, [
    ...statsSpans(asked).flatMap((span) => [
      stats(
        asked.values === null
          ? spanStatement(project, span, field)
          : valuesStatement(project, span, field, asked.values),
        field,
      ),
      ...(field === 0 ? [] : [stats(spanStatement(project, span, -field), -field)]),
    ]),
  ]);
  return sum.rows();
}

const NUMBERS = ['traces', 'observations', 'errors', 'input', 'output', 'cached', 'cost'];

/**
 * The rows as one value of bytes: numbers as they are in memory, and a length in front of a histogram and of a text. The driver takes a
 * microsecond for each row, and numbers in decimal digits cost both sides as much again.
 */
const STATS_ROWS = `SELECT string_agg(${[
  ...['start', ...NUMBERS].map((column) => `float8send(r.${column}::float8)`),
  'int4send(octet_length(r.latencies))',
  'r.latencies',
  'int4send(octet_length(r.value))',
  "convert_to(r.value, 'UTF8')",
].join(' || ')}, ''::bytea) AS bytes`;

type StatsBytes = { readonly bytes: Buffer | null };
const NO_BYTES = Buffer.alloc(0);
const FLOAT_BYTES = 8;
const LENGTH_BYTES = 4;

/** Hot path: a month by hour has thousands of rows. The numbers of a row are valid until the next one is made. */
function* statsRows(field: number, bytes: Buffer): Iterable<StatsRow> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const numbers = new Float64Array(NUMBERS.length);
  const texts = new RepeatedTexts(bytes);
  let at = 0;
  while (at < bytes.length) {
    const start = view.getFloat64(at);
    for (let i = 0; i < numbers.length; i++) {
      at += FLOAT_BYTES;
      numbers[i] = view.getFloat64(at);
    }
    const from = at + FLOAT_BYTES + LENGTH_BYTES;
    const to = from + view.getInt32(from - LENGTH_BYTES);
    const first = to + LENGTH_BYTES;
    at = first + view.getInt32(to);
    yield { field, start, value: texts.at(first, at), numbers, latencies: bytes, from, to };
  }
}

const MOST_TEXTS = 256;

/** Texts that repeat in the same order, as the values of each period do: a text that is known costs no decoding, and its hash is known too. */
class RepeatedTexts {
  readonly #bytes: Buffer;
  readonly #known: { readonly from: number; readonly to: number; readonly text: string }[] = [];
  readonly #indexes = new Map<string, number>();
  /** The index of the text that is expected. */
  #next = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  at(from: number, to: number): string {
    if (this.#next === this.#known.length) this.#next = 0;
    const expected = this.#known[this.#next];
    if (expected !== undefined && this.#areEqual(expected.from, expected.to, from, to)) {
      this.#next++;
      return expected.text;
    }
    const text = textOrNull(this.#bytes.toString('utf8', from, to)) ?? '';
    const index = this.#indexes.get(text);
    if (index !== undefined) this.#next = index + 1;
    else if (this.#known.length < MOST_TEXTS) {
      this.#indexes.set(text, this.#known.length);
      this.#known.push({ from, to, text });
      this.#next = this.#known.length;
    }
    return text;
  }

  #areEqual(from: number, to: number, otherFrom: number, otherTo: number): boolean {
    if (to - from !== otherTo - otherFrom) return false;
    const bytes = this.#bytes;
    for (let i = from, other = otherFrom; i < to; i++, other++) {
      if (bytes[i] !== bytes[other]) return false;
    }
    return true;
  }
}

function spanStatement(project: string, { step, from, to }: RollupSpan, field: number): Statement {
  return [
    `${STATS_ROWS} FROM rollups r
     WHERE r.project = $1 AND r.step = $2 AND r.field = $3 AND r.start >= $4 AND r.start < $5`,
    [project, step, field, from, to],
  ];
}

/**
 * A lookup for each value in each period. OFFSET 0 keeps the planner from reading the whole span. With `value = ANY (…)` in the lookup
 * it reads whole periods when values are frequent: 30 ms for 20 of 1,000 users a day, and 3 with a row for each value.
 */
function valuesStatement(
  project: string,
  { step, from, to }: RollupSpan,
  field: number,
  values: readonly string[],
): Statement {
  return [
    `${STATS_ROWS} FROM generate_series($4::bigint, $5::bigint - 1, $2::bigint) AS p (start)
     CROSS JOIN unnest($6::text[]) AS v (value) CROSS JOIN LATERAL (
       SELECT * FROM rollups WHERE project = $1 AND step = $2 AND field = $3 AND start = p.start
         AND value = v.value OFFSET 0
     ) r`,
    [project, step, field, from, to, [...new Set(values)].map(escapeText)],
  ];
}

async function readTogether(
  database: Database,
  project: string,
  sum: StatsSum,
  questions: readonly Question<void>[],
): Promise<void> {
  await database.transaction(async (client) => {
    const [, changes] = await client.together([SNAPSHOT, changesOf(project), ...questions]);
    for (const change of changes) sum.addChange(change);
  });
}

type ContributedTableRow = {
  readonly at_ms: number;
  readonly at_ns: number;
  readonly n: number;
  readonly rollup: string | null;
};

/** One step of a search, as `findTraces`. */
export async function findContributions(
  client: PostgresClient,
  dialect: Dialect,
  scope: TraceScope,
  look: Look,
): Promise<Omit<ContributionStep, 'spentMs'>> {
  const columns = CONTRIBUTED_COLUMNS;
  const { found, end } = await readStep<ContributedTableRow>(client, dialect, scope, look, columns);
  const listed = found.map(
    ({ at_ms: ms, at_ns: ns, n, rollup }): ContributedRow => [ms, ns, n, rollup],
  );
  return { ...takeRows(listed, look.limit, contributedBytes), end };
}
