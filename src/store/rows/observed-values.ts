import { decodeJsonText } from '../../model/json/decode.ts';
import type { ObservationError } from '../../model/observation.ts';
import { detailsFromColumn } from './observation-row.ts';
import type { StepPage, WalkedRow, WalkedRows } from './walked-page.ts';

/** The fields of observations whose values are counted from the rows: they have no rollups. */
export const OBSERVED_FIELDS = ['span', 'provider', 'prompt', 'error'] as const;
export type ObservedField = (typeof OBSERVED_FIELDS)[number];

export function isObservedField(name: string): name is ObservedField {
  return OBSERVED_FIELDS.some((field) => field === name);
}

/** The column of `observations` that has the values of a field. */
export const OBSERVED_COLUMNS = {
  span: 'name',
  provider: 'details',
  prompt: 'details',
  error: 'error',
} as const satisfies Readonly<Record<ObservedField, string>>;

/** The value in a cell of the column; undefined for a cell without one. */
function valueIn(field: ObservedField, cell: string): string | null | undefined {
  switch (field) {
    case 'span':
      return cell;
    case 'provider':
      return cell.includes('"provider":') ? detailsFromColumn(cell)?.provider : undefined;
    case 'prompt':
      return cell.includes('"promptName":') ? detailsFromColumn(cell)?.promptName : undefined;
    case 'error':
      return (decodeJsonText(cell) as ObservationError).type;
  }
}

/** The distinct values in the cells of a trace. */
export function valuesIn(field: ObservedField, cells: Iterable<string>): string[] {
  const values = new Set<string>();
  for (const cell of cells) {
    const value = valueIn(field, cell);
    if (typeof value === 'string') values.add(value);
  }
  return [...values];
}

/** A trace that a walk found, with its number of observations. */
export type CountedRow = readonly [ms: number, ns: number, n: number, observations: number];
/** The columns of a `CountedRow`, in its order. */
export const COUNTED_COLUMNS = 't.at_ms, t.at_ns, t.n, t.observations';

/** About the bytes that are read for the values of a trace: they bound the work of a step. */
export function observedBytes([, , , observations]: CountedRow): number {
  return observations * CELL_BYTES;
}

const CELL_BYTES = 100;

/** A trace with its distinct values. */
export type ObservedRow = WalkedRow &
  readonly [ms: number, ns: number, n: number, values: string[]];
export type ObservedRows = WalkedRows<ObservedRow>;
/** The distinct values of each trace. */
export type ObservedPage = StepPage<readonly string[]>;
