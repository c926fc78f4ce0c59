import { millisecondsBetween } from '../../model/details.ts';
import type { Instant } from '../../model/observation.ts';
import {
  dateText,
  detailsJson,
  textJson,
  timeJson,
  unnamedTool,
  wordJson,
} from '../observation-json.ts';
import type { BatchRef } from './event-rank.ts';
import type { ObservationRow, RowState } from './observation-row.ts';
import {
  detailsFromColumn,
  externalFromColumn,
  idOf,
  isEnded,
  kindOf,
  parentFromColumn,
  ROW,
  sourceNumberOf,
  sourceOfNumber,
  statusOf,
} from './observation-row.ts';
import type { TraceOfRow } from './stored.ts';
import { stateOf } from './stored.ts';

/** Makes the JSON of observations of one trace: the text of `observationJson`, without payloads. */
export type LineMaker = (
  row: ObservationRow,
  times: Pick<RowState<BatchRef>, 'createdAt' | 'updatedAt'>,
) => string;

/**
 * Hot path, runs for every observation of an export. The columns with JSON are spliced in as they are, and no object is made of the
 * row: an object and `JSON.stringify` cost twice as much.
 */
export function lineMaker({ projectId, traceId, newestMs, staleBefore }: TraceOfRow): LineMaker {
  const trace = JSON.stringify(traceId);
  const project = JSON.stringify(projectId);
  return (row, { createdAt, updatedAt }) => {
    const flags = row[ROW.FLAGS];
    const kind = kindOf(row[ROW.KIND]);
    const id = idOf(traceId, row[ROW.KEY], row[ROW.LONG_ID]);
    const parentId = parentFromColumn(traceId, row[ROW.PARENT]);
    const status = statusOf(row[ROW.STATUS]);
    const ended = isEnded(flags);
    const state = stateOf(status, ended, newestMs, staleBefore);
    const start = instantIn(row[ROW.START_MS], row[ROW.START_NS]);
    const end = instantIn(row[ROW.END_MS], row[ROW.END_NS]);
    return (
      `{"id":${JSON.stringify(id)},"trace_id":${trace},"parent_id":${textJson(parentId)}` +
      `,"name":${textJson(row[ROW.NAME])},"kind":${wordJson(kind)}` +
      `,"status":${wordJson(status)},"state":"${state}"` +
      `,"start_time":${timeJson(start)},"end_time":${timeJson(end)}` +
      `,"latency_ms":${millisecondsBetween(start, end) ?? null},"usage":${row[ROW.USAGE]}` +
      `,"model":${textJson(row[ROW.MODEL])},"error":${row[ROW.ERROR]}` +
      `,"event_version":${JSON.stringify(String(row[ROW.VERSION]))},"ended":${ended}` +
      `,"session_id":${textJson(row[ROW.SESSION])},"user_id":${textJson(row[ROW.USER])}` +
      `,"external":${externalText(row, traceId, id, parentId)}` +
      detailsText(row[ROW.DETAILS], unnamedTool(kind, row[ROW.NAME])) +
      `,"source":${wordJson(sourceOfNumber(sourceNumberOf(flags)))},"project_id":${project}` +
      `,"created_at":"${dateText(createdAt)}","updated_at":"${dateText(updatedAt)}"` +
      `,"custom_fields":${row[ROW.CUSTOM] ?? '{}'}}`
    );
  };
}

function instantIn(ms: number | null, ns: number | null): Instant | null {
  return ms === null ? null : { ms, ns: ns ?? 0 };
}

function externalText(
  row: ObservationRow,
  traceId: string,
  id: string,
  parentId: string | null,
): string | null {
  const external = row[ROW.EXTERNAL];
  // The column has JSON, or a word for ids that follow from the row.
  if (external === null || external.startsWith('{')) return external;
  return JSON.stringify(externalFromColumn(external, traceId, id, parentId));
}

const NO_DETAILS = detailsJson({}, null);

function detailsText(column: string | null, tool: string | null): string {
  if (column === null && tool === null) return NO_DETAILS;
  return detailsJson(detailsFromColumn(column) ?? {}, tool);
}
