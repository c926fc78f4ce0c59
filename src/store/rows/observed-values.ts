import { decodeJsonText } from '../../model/json/decode.ts';
import { OBSERVATION_STATUSES, type ObservationError } from '../../model/observation.ts';
import type { Look } from '../plan/step.ts';
import type { FacetCount } from '../rollups/reading.ts';
import { endOfText } from './listed.ts';
import { detailsFromColumn, sourceOfNumber } from './observation-row.ts';
import type { Place } from './place.ts';
import { stateOf } from './stored.ts';
import type { TraceFacts } from './trace-summary.ts';
import type { StepPage, WalkedRow, WalkedRows } from './walked-page.ts';
import { stepPage } from './walked-page.ts';

/** The fields of observations whose values are counted from the rows: they have no rollups. */
const OBSERVED_FIELDS = ['span', 'provider', 'prompt', 'error'] as const;
export type ObservedField = (typeof OBSERVED_FIELDS)[number];
/** The fields of traces whose values are counted from the rows. */
const TRACE_FIELDS = ['source', 'state', 'release', 'tag'] as const;
/** The fields whose values are counted from the rows, `custom.KEY` among them. */
export type CountedField = ObservedField | (typeof TRACE_FIELDS)[number] | `custom.${string}`;

export const COUNTED_FIELDS: readonly string[] = [...TRACE_FIELDS, ...OBSERVED_FIELDS];

export function isCountedField(name: string): name is CountedField {
  return COUNTED_FIELDS.includes(name) || (name.startsWith('custom.') && name !== 'custom.');
}

export function isObservedField(name: CountedField): name is ObservedField {
  return OBSERVED_FIELDS.some((field) => field === name);
}

/** The column of `observations` that has the values of a field. */
export const OBSERVED_COLUMNS = {
  span: 'name',
  provider: 'details',
  prompt: 'details',
  error: 'error',
} as const satisfies Readonly<Record<ObservedField, string>>;

/** A trace that a walk found, and a cell: its number of observations, or the cell that has the values of the field. */
export type CountedRow = readonly [ms: number, ns: number, n: number, cell: number | string | null];

/** The columns of a `CountedRow`. */
export function countedColumns(field: CountedField): string {
  return `t.at_ms, t.at_ns, t.n, ${isObservedField(field) ? 't.observations' : traceColumn(field)}`;
}

function traceColumn(field: Exclude<CountedField, ObservedField>): string {
  if (field === 'source' || field === 'release') return `t.${field}`;
  if (field === 'state') return STATE;
  return 't.facts';
}

const FAILED = OBSERVATION_STATUSES.indexOf('error');
/** The state of a trace that does not depend on the time, or its newest time; see `stateOf`. */
const STATE = `CASE WHEN t.status = ${FAILED} THEN 'error'
  WHEN t.is_ended = 1 OR (t.is_ended IS NULL AND t.end_ms IS NOT NULL) THEN 'finished'
  ELSE CAST(t.newest_ms AS text) END`;

/** About the bytes that are read for the values of a trace: they bound the work of a step. */
export function countedBytes([, , , cell]: CountedRow): number {
  if (typeof cell === 'number') return cell * CELL_BYTES;
  return cell === null ? 0 : cell.length;
}

const CELL_BYTES = 100;

/** Counts the traces of each value. */
export class ValueCounts {
  readonly #field: CountedField;
  readonly #staleBefore: number;
  readonly #traces = new Map<string, number>();

  /** See `traceOf` for `staleBefore`. */
  constructor(field: CountedField, { staleBefore }: Pick<Look, 'staleBefore'>) {
    this.#field = field;
    this.#staleBefore = staleBefore;
  }

  /** The cells of the observations of a trace. */
  addObservations(cells: Iterable<string>): void {
    const values = new Set<string>();
    for (const cell of cells) {
      const value = observedValue(this.#field, cell);
      if (typeof value === 'string') values.add(value);
    }
    for (const value of values) this.#count(value);
  }

  addTrace(cell: number | string | null): void {
    if (this.#field === 'source') this.#count(sourceOfNumber(Number(cell ?? 0)));
    else if (this.#field === 'state') this.#count(this.#stateIn(cell));
    else if (cell === null) return;
    else if (this.#field === 'release') this.#count(String(cell));
    else this.#addFacts(String(cell));
  }

  #stateIn(cell: number | string | null): string {
    if (cell === 'error' || cell === 'finished') return cell;
    return stateOf(null, false, cell === null ? null : Number(cell), this.#staleBefore);
  }

  #addFacts(text: string): void {
    if (this.#field === 'tag') {
      for (const tag of tagsIn(text)) this.#count(tag);
      return;
    }
    const facts = decodeJsonText(text) as TraceFacts;
    const custom = facts.custom ?? {};
    const key = this.#field.slice('custom.'.length);
    if (Object.hasOwn(custom, key)) this.#count(custom[key] ?? '');
  }

  #count(value: string): void {
    this.#traces.set(value, (this.#traces.get(value) ?? 0) + 1);
  }

  list(): FacetCount[] {
    return [...this.#traces];
  }
}

const TAGS = '"tags":[';

/**
 * The tags of facts. Hot path: the other facts of a trace cost ten times as much to decode. No text in JSON has a quote that is not
 * escaped, so the name of the member is at no other place.
 */
function tagsIn(facts: string): readonly string[] {
  const start = facts.indexOf(TAGS);
  if (start === -1) return [];
  const first = start + TAGS.length - 1;
  let end = first + 1;
  while (facts[end] === '"') {
    end = endOfText(facts, end) ?? facts.length;
    if (facts[end] === ',') end++;
  }
  return decodeJsonText(facts.slice(first, end + 1)) as string[];
}

/** The value in a cell of the column; null or undefined for a cell without one. */
function observedValue(field: CountedField, cell: string): string | null | undefined {
  switch (field) {
    case 'span':
      return cell;
    case 'provider':
      return cell.includes('"provider":') ? detailsFromColumn(cell)?.provider : undefined;
    case 'prompt':
      return cell.includes('"promptName":') ? detailsFromColumn(cell)?.promptName : undefined;
    case 'error':
      return (decodeJsonText(cell) as ObservationError).type;
    default:
      return undefined;
  }
}

/** The counts of a step; `last` is the place of its last trace. */
export type CountedStep = Omit<WalkedRows<WalkedRow>, 'rows'> & {
  readonly counts: readonly FacetCount[];
  readonly last: Place | undefined;
};
/** The values of the traces of a step, each with their number. */
export type CountedPage = StepPage<FacetCount>;

export function countedPage({ counts, ...step }: CountedStep): CountedPage {
  return stepPage(counts, step);
}

/** The place of the last trace of a step. */
export function lastPlace(rows: readonly CountedRow[]): Place | undefined {
  const last = rows.at(-1);
  return last && { ms: last[0], ns: last[1], n: last[2] };
}
