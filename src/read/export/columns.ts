import { PAYLOAD_FIELDS } from '../../model/observation.ts';

/** The kind of an export's rows. */
export type ExportOf = 'traces' | 'observations';

/** `texts` is a list, `json` the text of any JSON. */
export type ColumnType = 'text' | 'time' | 'number' | 'integer' | 'boolean' | 'texts' | 'json';

/** A flat column of CSV and Parquet. */
export type ExportColumn = {
  readonly name: string;
  readonly type: ColumnType;
  /** The member of a row's JSON that the column is made of, and the way to the value in it. */
  readonly member: string;
  readonly path: readonly string[];
};

/** The members that name a row, from which an export goes on. They are in every row. */
export const KEY_MEMBERS: Readonly<Record<ExportOf, readonly string[]>> = {
  traces: ['id'],
  observations: ['trace_id', 'id'],
};

/** The kinds of tokens that have a column of their own; the column `usage` has all. */
const TOKENS = [
  ...['input_tokens', 'output_tokens', 'total_tokens', 'cached_tokens', 'cache_write_tokens'],
  'reasoning_tokens',
];

const TRACE_COLUMNS: readonly ExportColumn[] = [
  ...of('text', 'id', 'name', 'status', 'state'),
  ...of('time', 'start_time', 'end_time'),
  ...of('number', 'latency_ms', 'ttft_ms'),
  ...of('integer', 'observation_count', 'error_count'),
  ...of('texts', 'models'),
  ...of('text', 'session_id', 'user_id', 'key_id', 'source', 'environment', 'release'),
  ...of('texts', 'tags'),
  ...of('json', 'custom_fields', 'scores'),
  ...TOKENS.map((kind) => within('integer', 'usage', kind, kind)),
  ...of('json', 'usage'),
  ...costs(),
  ...of('boolean', 'clock_skew'),
  ...of('text', 'input_preview', 'output_preview'),
];

const OBSERVATION_COLUMNS: readonly ExportColumn[] = [
  ...of('text', 'trace_id', 'id', 'parent_id', 'name', 'kind', 'status', 'state'),
  ...of('time', 'start_time', 'end_time'),
  ...of('boolean', 'ended'),
  ...of('number', 'latency_ms', 'ttft_ms'),
  ...of('text', 'model', 'provider'),
  ...TOKENS.map((kind) => within('integer', 'usage', kind, kind)),
  ...of('json', 'usage'),
  ...costs(),
  ...of('text', 'cost_source', 'session_id', 'user_id', 'environment', 'release', 'tool'),
  within('text', 'prompt', 'prompt_name', 'name'),
  within('text', 'prompt', 'prompt_version', 'version'),
  ...of('texts', 'tags'),
  within('text', 'error', 'error_type', 'type'),
  within('text', 'error', 'error_message', 'message'),
  within('text', 'error', 'error_stacktrace', 'stacktrace'),
  ...of('json', 'custom_fields', 'external', 'ignored', 'attachments'),
  ...of('text', 'source', 'project_id', 'event_version'),
  ...of('time', 'created_at', 'updated_at'),
];

const PAYLOAD_COLUMNS = of('json', ...PAYLOAD_FIELDS);

export function columnsOf(of: ExportOf, hasPayloads: boolean): readonly ExportColumn[] {
  if (of === 'traces') return TRACE_COLUMNS;
  return hasPayloads ? [...OBSERVATION_COLUMNS, ...PAYLOAD_COLUMNS] : OBSERVATION_COLUMNS;
}

/** The value of a column in the members of a row; null where it is absent. */
export function columnValue({ member, path }: ExportColumn, row: RowMembers): unknown {
  let value: unknown = row[member];
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return null;
    value = (value as RowMembers)[name];
  }
  return value ?? null;
}

/** About the characters of a value of a column, as text. */
export function charactersOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (!Array.isArray(value)) return value === null ? 0 : NUMBER_CHARACTERS;
  return value.reduce((sum: number, one) => sum + charactersOf(one), 0);
}

const NUMBER_CHARACTERS = 8;

/** The members of a row's JSON. Payloads are JSON texts. */
export type RowMembers = Readonly<Record<string, unknown>>;

function of(type: ColumnType, ...names: readonly string[]): ExportColumn[] {
  return names.map((name) => ({ name, type, member: name, path: [] }));
}

function within(type: ColumnType, member: string, name: string, step: string): ExportColumn {
  return { name, type, member, path: [step] };
}

function costs(): ExportColumn[] {
  return ['input', 'output', 'total'].map((part) => within('number', 'cost', `cost_${part}`, part));
}
