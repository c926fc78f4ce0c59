import type { ColumnType, ExportColumn, RowMembers } from './columns.ts';
import { columnValue } from './columns.ts';

/** RFC 4180: cells with separators, quotes or line breaks are quoted, and a record ends with CR LF. */
const NEEDS_QUOTES = /[",\r\n]/;

/**
 * A spreadsheet runs a text that begins so as a formula, in fullwidth forms too. An apostrophe in front makes it a text.
 * A text whose apostrophes are in front of such a character gets one more, so that a reader can take one away again.
 */
const RUNS_AS_FORMULA = /^'*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/;

export function csvHeader(columns: readonly ExportColumn[]): string {
  return `${columns.map(({ name }) => name).join(',')}\r\n`;
}

/** Hot path, runs for every row: a list of cells that is joined costs twice as much. */
export function csvRow(columns: readonly ExportColumn[], row: RowMembers): string {
  let text = '';
  let separator = '';
  for (const column of columns) {
    const { member, path, type } = column;
    const value = path.length === 0 ? row[member] : columnValue(column, row);
    text += separator;
    separator = ',';
    if (value !== null && value !== undefined) text += cellOf(type, value);
  }
  return `${text}\r\n`;
}

function cellOf(type: ColumnType, value: unknown): string {
  switch (type) {
    case 'number':
    case 'integer':
    case 'boolean':
    case 'time':
      return String(value);
    case 'texts':
      return Array.isArray(value) && value.length === 0 ? '[]' : textCell(JSON.stringify(value));
    case 'json':
    case 'text':
      return textCell(typeof value === 'string' ? value : JSON.stringify(value));
  }
}

/** A cell with any text. */
export function textCell(text: string): string {
  const safe = RUNS_AS_FORMULA.test(text) ? `'${text}` : text;
  return NEEDS_QUOTES.test(safe) || safe !== text ? `"${safe.replaceAll('"', '""')}"` : safe;
}
