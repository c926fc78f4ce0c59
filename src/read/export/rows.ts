import { onOneLine } from '../../model/json/one-line.ts';
import type { PayloadTexts } from '../../store/observation-json.ts';
import {
  observationJson,
  observationMembers,
  traceJson,
  traceMembers,
} from '../../store/observation-json.ts';
import type { StoredObservation, StoredTrace } from '../../store/store.ts';
import type { RowMembers } from './columns.ts';
import { columnsOf } from './columns.ts';
import { csvHeader, csvRow } from './csv.ts';
import type { Encoder } from './encoder.ts';
import { rowEncoder } from './encoder.ts';
import type { ExportRequest } from './request.ts';

/** The forms of a row of an export. */
export type RowForms<Row> = {
  /** The JSON of the reading requests. */
  json(row: Row, payloads: PayloadTexts | undefined): string;
  members(row: Row, payloads: PayloadTexts | undefined): RowMembers;
};

export const TRACE_FORMS: RowForms<StoredTrace> = { json: traceJson, members: traceMembers };

export const OBSERVATION_FORMS: RowForms<StoredObservation> = {
  json: observationJson,
  members: (stored, payloads) => ({
    ...observationMembers(stored),
    custom_fields: stored.customFieldsText ?? stored.customFields ?? {},
    ...payloads,
  }),
};

/** JSON lines with the shapes of the reading requests, or some of their members. */
export function jsonLines<Row>(forms: RowForms<Row>, request: ExportRequest): Encoder<Row> {
  const { members, payloads } = request;
  if (members === undefined && payloads !== 'text') {
    return rowEncoder((row, texts) => `${onOneLine(forms.json(row, texts))}\n`);
  }
  const all = columnsOf(request.of, payloads !== 'false').map(({ member }) => member);
  const wanted = [...new Set(all)].filter((member) => members?.has(member) ?? true);
  return rowEncoder((row, texts) => {
    const found = forms.members(row, texts);
    const parts = wanted.map((member) => {
      const value = found[member] ?? null;
      const isText = JSON_TEXTS.has(member) && typeof value === 'string';
      const shown =
        isText && (payloads !== 'text' || member === CUSTOM) ? value : JSON.stringify(value);
      return `${JSON.stringify(member)}:${shown}`;
    });
    return `{${onOneLine(parts.join(','))}}\n`;
  });
}

const CUSTOM = 'custom_fields';
/** The members whose value may be JSON text. */
const JSON_TEXTS = new Set(
  columnsOf('observations', true)
    .filter(({ type }) => type === 'json')
    .map(({ member }) => member),
);

export function csvLines<Row>(forms: RowForms<Row>, { columns }: ExportRequest): Encoder<Row> {
  return rowEncoder((row, texts) => csvRow(columns, forms.members(row, texts)), csvHeader(columns));
}
