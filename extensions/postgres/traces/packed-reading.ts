/** Reads observations as packed rows: those of trees and of exports, which are many. */
import { versionOf } from '../../../src/store/rows/event-rank.ts';
import { listedRow, rowBytes } from '../../../src/store/rows/listed.ts';
import type { Key, ObservationRow } from '../../../src/store/rows/observation-row.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { TreeCells } from '../../../src/store/rows/tree.ts';
import { TREE_COLUMNS } from '../../../src/store/rows/tree.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import type { PackedRow } from './packed-rows.ts';
import { PackedCells, packed } from './packed-rows.ts';
import type { PageRange, ScopeValues } from './reading.ts';
import { BEHIND_PLACE, OF_TRACES, pageValues, ROW_PLACE } from './reading.ts';
import type { ObservationTableRow } from './rows.ts';
import { bytesOfKey, unescapeParent } from './text.ts';

const LINE_COLUMNS = [
  ...([
    'n',
    'created_at',
    'updated_at',
    'key',
    'long_id',
    'version',
    'flags',
    'parent',
    'name',
  ] as const),
  ...(['kind', 'status', 'start_ms', 'start_ns', 'end_ms', 'end_ns', 'model', 'usage'] as const),
  ...(['session', 'user_id', 'error', 'custom', 'external', 'details'] as const),
] as const satisfies readonly (keyof ObservationTableRow)[];

const PAGE = `FROM observations o JOIN traces t ON t.n = o.trace ${BEHIND_PLACE}`;
const PAGE_OF_TREE = `SELECT ${packed(TREE_COLUMNS, 't.newest_ms')} ${PAGE}`;
const PAGE_OF_LINES = `SELECT ${packed(LINE_COLUMNS, '1', 't.newest_ms')} ${PAGE}`;
const LINES_OF_TRACES = `SELECT ${packed(LINE_COLUMNS, 'w.place', 't.newest_ms')}
  ${OF_TRACES} ORDER BY w.place, ${ROW_PLACE} LIMIT $4`;
/** The statements of pages of one trace. */
export const PACKED_PAGES = [PAGE_OF_TREE, PAGE_OF_LINES];

export async function findTree(
  client: PostgresClient,
  scope: ScopeValues,
  traceKey: Key,
  range: PageRange,
): Promise<FoundRows<TreeCells>> {
  const values = pageValues(scope, traceKey, range);
  const found = await rows<PackedRow>(client, PAGE_OF_TREE, values);
  return takeRows(found.map(treeCellsOf), range.limit, rowBytes);
}

/**
 * Observations of the traces, in the order of the keys: behind a place of the first trace, and one more than the limit, which says whether there are
 * further ones.
 */
export async function findLines(
  client: PostgresClient,
  scope: ScopeValues,
  traceKeys: readonly Key[],
  { after, limit }: PageRange,
): Promise<Iterable<LineCells>> {
  const [first, ...others] = traceKeys;
  if (first === undefined) return [];
  if (after === null) return linesIn(await linesOfTraces(client, scope, traceKeys, limit));
  const values = pageValues(scope, first, { after, limit });
  const found = await rows<PackedRow>(client, PAGE_OF_LINES, values);
  if (found.length > limit || others.length === 0) return linesIn(found);
  const more = await linesOfTraces(client, scope, others, limit - found.length);
  return linesIn(found, more);
}

function linesOfTraces(
  client: PostgresClient,
  scope: ScopeValues,
  traceKeys: readonly Key[],
  limit: number,
): Promise<readonly PackedRow[]> {
  const values = [...scope, traceKeys.map(bytesOfKey), limit + 1];
  return rows<PackedRow>(client, LINES_OF_TRACES, values);
}

/** `behind`: rows of the traces behind the first one. */
function* linesIn(
  found: readonly PackedRow[],
  behind: readonly PackedRow[] = [],
): Generator<LineCells> {
  for (const row of taken(found)) yield lineCellsOf(row, 0);
  for (const row of taken(behind)) yield lineCellsOf(row, 1);
}

/** Empties the list: each row is garbage once it is taken. */
function* taken(found: readonly PackedRow[]): Generator<PackedRow> {
  const rest = found as PackedRow[];
  rest.reverse();
  for (let row = rest.pop(); row !== undefined; row = rest.pop()) yield row;
}

function treeCellsOf(found: PackedRow): TreeCells {
  const cells = new PackedCells(found);
  const newestMs = cells.numberOrNull();
  return [
    cells.number(),
    cells.key(),
    cells.text(),
    cells.number(),
    unescapeParent(cells.escaped()),
    cells.text(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.number(),
    newestMs,
  ];
}

/** An observation that becomes JSON. */
export type LineCells = {
  readonly n: number;
  /** The index of its trace among those that were asked for. */
  readonly trace: number;
  readonly newestMs: number | null;
  readonly row: ObservationRow;
  readonly createdAt: number;
  readonly updatedAt: number;
};

/** `skipped`: the traces in front of those that the statement was asked for. */
function lineCellsOf(found: PackedRow, skipped: number): LineCells {
  const cells = new PackedCells(found);
  const trace = cells.number() - 1 + skipped;
  const newestMs = cells.numberOrNull();
  const n = cells.number();
  const createdAt = cells.number();
  const updatedAt = cells.number();
  const row: ObservationRow = [
    cells.key(),
    cells.text(),
    0,
    versionOf(cells.text() ?? ''),
    cells.number(),
    unescapeParent(cells.escaped()),
    cells.text(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.numberOrNull(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.text(),
    cells.text(),
  ];
  return { ...{ n, trace, newestMs, createdAt, updatedAt }, row: listedRow(row) };
}
