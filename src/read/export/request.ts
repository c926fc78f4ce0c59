import { didYouMean } from '../../component/did-you-mean.ts';
import { Refusal } from '../../model/errors.ts';
import type { Query } from '../../query/query.ts';
import { choice, count, one, traceQuery } from '../query.ts';
import type { ExportColumn, ExportOf } from './columns.ts';
import { columnsOf, KEY_MEMBERS } from './columns.ts';

const EXPORT_FORMATS = ['jsonl', 'csv', 'parquet', 'otlp'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

const OF = ['traces', 'observations'] as const;

/** `text`: the JSON text of each payload in a string, so that a reader of JSON changes no number in it. */
const PAYLOADS = ['false', 'true', 'text'] as const;

/** The parameters of an export. */
export const EXPORT_PARAMETERS = [
  ...['q', 'from', 'to', 'format', 'of', 'payloads', 'fields', 'after', 'limit', 'max_bytes'],
] as const;

/** The part of a project's data that a client asks for, and its form. */
export type ExportRequest = {
  readonly format: ExportFormat;
  readonly of: ExportOf;
  readonly payloads: (typeof PAYLOADS)[number];
  readonly columns: readonly ExportColumn[];
  /** The members of a row's JSON; undefined for all. */
  readonly members: ReadonlySet<string> | undefined;
  readonly after: string | undefined;
  /** The most rows. */
  readonly limit: number;
  /** Bytes after which the export ends behind a row. */
  readonly maxBytes: number;
};

/** Throws a `Refusal` (400). */
export function exportRequest(query: URLSearchParams): ExportRequest {
  const format = choice(query, 'format', EXPORT_FORMATS, 'jsonl');
  const isOtlp = format === 'otlp';
  const of = choice(query, 'of', OF, isOtlp ? 'observations' : 'traces');
  const payloads = choice(query, 'payloads', PAYLOADS, isOtlp ? 'true' : 'false');
  const fields = one(query, 'fields')?.split(',');
  if (isOtlp) checkOtlp(of, payloads, fields);
  if (of === 'traces' && payloads !== 'false') {
    throw invalid('payloads', 'goes with of=observations: traces have none of their own');
  }
  const all = columnsOf(of, payloads !== 'false');
  const columns = fields === undefined ? all : chosen(all, fields, of);
  return {
    ...{ format, of, payloads, columns },
    members: fields && new Set(columns.map(({ member }) => member)),
    after: one(query, 'after'),
    limit: count(query, 'limit') ?? Infinity,
    maxBytes: count(query, 'max_bytes') ?? Infinity,
  };
}

/** A span is all of an observation. */
function checkOtlp(
  of: ExportOf,
  payloads: ExportRequest['payloads'],
  fields: readonly string[] | undefined,
): void {
  if (of !== 'observations') throw invalid('of', 'is observations with format=otlp');
  if (payloads !== 'true') throw invalid('payloads', 'is true with format=otlp');
  if (fields !== undefined)
    throw invalid('fields', 'does not go with format=otlp: spans are whole');
}

/** A field is a column, or a member with all of its columns. The order is that of the columns. */
function chosen(
  all: readonly ExportColumn[],
  fields: readonly string[],
  of: ExportOf,
): readonly ExportColumn[] {
  const known = new Set(all.flatMap(({ name, member }) => [name, member]));
  for (const field of fields) {
    if (known.has(field)) continue;
    const shown = JSON.stringify(field.slice(0, MAX_SHOWN));
    const advice = didYouMean(field, known);
    const end = advice === '' ? `; known are ${[...known].join(', ')}.` : advice;
    throw invalid('fields', `has the unknown field ${shown}${end}`);
  }
  const wanted = new Set([...fields, ...KEY_MEMBERS[of]]);
  return all.filter(({ name, member }) => wanted.has(name) || wanted.has(member));
}

/** Characters of a name that an error repeats. */
const MAX_SHOWN = 100;

/** The texts that decide which rows an export has, for its cursors; `now` in the query is a moving instant. */
export function exportTexts(query: URLSearchParams): string[] {
  return ['q', 'from', 'to'].map((name) => one(query, name) ?? '');
}

export function exportQuery(query: URLSearchParams, nowMs: number): Query {
  return traceQuery(query, nowMs);
}

function invalid(name: string, what: string): Refusal {
  const end = /[.?]$/.test(what) ? '' : '.';
  return new Refusal('invalid_request', `The query parameter ${name} ${what}${end}`);
}
