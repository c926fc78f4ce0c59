import { cutText, NARROW_LIMITS } from '../../model/narrow-limits.ts';
import { dividesPair } from '../../model/surrogates.ts';
import type { ObservationRow, RowCell } from './observation-row.ts';
import { ROW } from './observation-row.ts';
import type { TraceRow } from './stored.ts';
import { TRACE } from './stored.ts';

/**
 * Rows as listings read them. Rows that an earlier version wrote may have texts of any length: the statement reads
 * only the beginning of each, and what is read is cut to the limits of narrow fields.
 */

/** Characters of a text; one more than its limit, so that a longer one is recognized. */
const TEXT_CHARACTERS = NARROW_LIMITS.TEXT + 1;
/** Characters of a JSON object. */
const JSON_CHARACTERS = 65_536;

/** The columns with texts of clients, and the characters that a listing reads. Ids have limits of their own. */
const LISTED_CHARACTERS: Readonly<Record<string, number>> = {
  name: TEXT_CHARACTERS,
  model: TEXT_CHARACTERS,
  session: TEXT_CHARACTERS,
  user_id: TEXT_CHARACTERS,
  usage: JSON_CHARACTERS,
  error: JSON_CHARACTERS,
  custom: JSON_CHARACTERS,
  external: JSON_CHARACTERS,
  model_usage: JSON_CHARACTERS,
  other_usage: JSON_CHARACTERS,
};

/** The SQL of a column in a listing. */
export function listedColumn(table: string, column: string): string {
  const cell = listedCell(table, column);
  return LISTED_CHARACTERS[column] === undefined ? cell : `${cell} AS ${column}`;
}

/** The same as an expression without a name. SQLite's `substr` ends at a NUL, so a short text is read without it. */
export function listedCell(table: string, column: string): string {
  const characters = LISTED_CHARACTERS[column];
  const cell = `${table}.${column}`;
  if (characters === undefined) return cell;
  const beginning = `substr(${cell}, 1, ${characters})`;
  return `CASE WHEN octet_length(${cell}) <= ${characters} THEN ${cell} ELSE ${beginning} END`;
}

export function listedRow(row: ObservationRow): ObservationRow {
  const listed: ObservationRow = [...row];
  listed[ROW.NAME] = cutText(row[ROW.NAME]);
  listed[ROW.MODEL] = cutText(row[ROW.MODEL]);
  listed[ROW.SESSION] = cutText(row[ROW.SESSION]);
  listed[ROW.USER] = cutText(row[ROW.USER]);
  listed[ROW.USAGE] = closed(row[ROW.USAGE]);
  listed[ROW.ERROR] = closed(row[ROW.ERROR]);
  listed[ROW.CUSTOM] = closed(row[ROW.CUSTOM]);
  listed[ROW.EXTERNAL] = closed(row[ROW.EXTERNAL]);
  return listed;
}

/** A row of whole columns as a listing has it. Most rows are short, and left as they are. */
export function cutRow(row: ObservationRow): ObservationRow {
  if (rowBytes(row) <= NARROW_LIMITS.TEXT) return row;
  const cut: ObservationRow = [...row];
  cut[ROW.USAGE] = row[ROW.USAGE]?.slice(0, JSON_CHARACTERS) ?? null;
  cut[ROW.ERROR] = row[ROW.ERROR]?.slice(0, JSON_CHARACTERS) ?? null;
  cut[ROW.CUSTOM] = row[ROW.CUSTOM]?.slice(0, JSON_CHARACTERS) ?? null;
  cut[ROW.EXTERNAL] = row[ROW.EXTERNAL]?.slice(0, JSON_CHARACTERS) ?? null;
  return listedRow(cut);
}

export function listedTraceRow(row: TraceRow): TraceRow {
  const listed: [...TraceRow] = [...row];
  listed[TRACE.NAME] = cutText(row[TRACE.NAME]);
  listed[TRACE.MODEL_USAGE] = closed(row[TRACE.MODEL_USAGE]);
  listed[TRACE.OTHER_USAGE] = closed(row[TRACE.OTHER_USAGE]);
  return listed;
}

/** About the bytes of a row in memory. */
export function rowBytes(row: readonly RowCell[]): number {
  let bytes = 0;
  for (const cell of row) {
    if (typeof cell === 'string' || cell instanceof Uint8Array) bytes += cell.length;
    else bytes += 8;
  }
  return bytes;
}

/** A whole object, if the statement has cut it. */
export function closed(json: string | null): string | null {
  return json === null || json.length < JSON_CHARACTERS ? json : closeObject(json);
}

/**
 * The beginning of a flat object, as `JSON.stringify` prints it, as a whole object: a text that is cut ends with `…`,
 * any other incomplete member is left out.
 */
export function closeObject(json: string): string {
  let whole = 1;
  while (json[whole] !== '}') {
    const start = whole === 1 ? whole : whole + 1;
    const key = endOfText(json, start);
    if (key === undefined) break;
    const value = key + 1;
    const end = json[value] === '"' ? endOfText(json, value) : endOfScalar(json, value);
    if (end === undefined) {
      if (json[value] !== '"') break;
      return `${json.slice(0, endOfWholeEscapes(json, value + 1))}…"}`;
    }
    whole = end;
  }
  return `${json.slice(0, whole)}}`;
}

/** The index behind the text that begins at a quote; undefined if it is cut. */
export function endOfText(json: string, start: number): number | undefined {
  let at = json.indexOf('"', start + 1);
  while (at !== -1 && isEscaped(json, at)) at = json.indexOf('"', at + 1);
  return at === -1 ? undefined : at + 1;
}

/** An odd number of backslashes is before the character. */
function isEscaped(json: string, at: number): boolean {
  let first = at;
  while (json[first - 1] === '\\') first--;
  return (at - first) % 2 === 1;
}

/** The index of the comma or brace behind a number or a literal; undefined if it is cut. */
function endOfScalar(json: string, start: number): number | undefined {
  let at = start;
  while (at < json.length && json[at] !== ',' && json[at] !== '}') at++;
  return at < json.length ? at : undefined;
}

const ESCAPE = /\\(?:u[0-9a-f]{4}|[^u])/gy;

/** The end of the text without an escape or a pair of surrogates that is cut. */
function endOfWholeEscapes(json: string, start: number): number {
  let at = json.indexOf('\\', start);
  while (at !== -1) {
    ESCAPE.lastIndex = at;
    if (!ESCAPE.test(json)) return at;
    at = json.indexOf('\\', ESCAPE.lastIndex);
  }
  // `JSON.stringify` escapes surrogates without a pair, so one at the end has lost the other half.
  return dividesPair(json, json.length) ? json.length - 1 : json.length;
}
