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

/** Observations of the traces, in the order of the keys, as `lineRowOf` reads them: behind a place of the first trace. */
export async function findLines(
  client: PostgresClient,
  scope: ScopeValues,
  traceKeys: readonly Key[],
  { after, limit }: PageRange,
): Promise<FoundRows<LineCells>> {
  const [first, ...others] = traceKeys;
  if (first === undefined) return { rows: [], hasMore: false };
  if (after === null) {
    const values = [...scope, traceKeys.map(bytesOfKey), limit + 1];
    const found = await rows<PackedRow>(client, LINES_OF_TRACES, values);
    return takeRows(found.map(lineCellsOf), limit, ({ row }) => rowBytes(row));
  }
  const values = pageValues(scope, first, { after, limit });
  const found = await rows<PackedRow>(client, PAGE_OF_LINES, values);
  const page = takeRows(found.map(lineCellsOf), limit, ({ row }) => rowBytes(row));
  if (page.hasMore || others.length === 0) return page;
  const left = { after: null, limit: limit - page.rows.length };
  const more = await findLines(client, scope, others, left);
  const behind = more.rows.map((line) => ({ ...line, trace: line.trace + 1 }));
  return { rows: [...page.rows, ...behind], hasMore: more.hasMore };
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

function lineCellsOf(found: PackedRow): LineCells {
  const cells = new PackedCells(found);
  const trace = cells.number() - 1;
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
