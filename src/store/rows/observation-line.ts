import { millisecondsBetween } from '../../model/details.ts';
import { formatMs } from '../../model/instant.ts';
import type { Instant } from '../../model/observation.ts';
import { detailsJson, textJson, timeJson, unnamedTool, wordJson } from '../observation-json.ts';
import type { BatchRef } from './event-rank.ts';
import type { ObservationRow, RowState } from './observation-row.ts';
import {
  DERIVED,
  detailsFromColumn,
  externalFromColumn,
  idOf,
  isDerivedWord,
  isEnded,
  isSpanKey,
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
    const status = statusOf(row[ROW.STATUS]);
    const ended = isEnded(flags);
    const state = stateOf(status, ended, newestMs, staleBefore);
    const start = instantIn(row[ROW.START_MS], row[ROW.START_NS]);
    const end = instantIn(row[ROW.END_MS], row[ROW.END_NS]);
    const { id, parentId, external } = idTexts(row, traceId, trace);
    return (
      `{"id":${id},"trace_id":${trace},"parent_id":${parentId}` +
      `,"name":${textJson(row[ROW.NAME])},"kind":${wordJson(kind)}` +
      `,"status":${wordJson(status)},"state":"${state}"` +
      `,"start_time":${timeJson(start)},"end_time":${timeJson(end)}` +
      `,"latency_ms":${millisecondsBetween(start, end) ?? null},"usage":${row[ROW.USAGE]}` +
      `,"model":${textJson(row[ROW.MODEL])},"error":${row[ROW.ERROR]}` +
      `,"event_version":"${row[ROW.VERSION]}","ended":${ended}` +
      `,"session_id":${textJson(row[ROW.SESSION])},"user_id":${textJson(row[ROW.USER])}` +
      `,"external":${external}` +
      detailsText(row[ROW.DETAILS], unnamedTool(kind, row[ROW.NAME])) +
      `,"source":${wordJson(sourceOfNumber(sourceNumberOf(flags)))},"project_id":${project}` +
      `,"created_at":"${formatMs(createdAt)}","updated_at":"${formatMs(updatedAt)}"` +
      `,"custom_fields":${row[ROW.CUSTOM] ?? '{}'}}`
    );
  };
}

function instantIn(ms: number | null, ns: number | null): Instant | null {
  return ms === null ? null : { ms, ns: ns ?? 0 };
}

/** The JSON of the ids of a row. */
type IdTexts = {
  readonly id: string;
  readonly parentId: string | null;
  readonly external: string | null;
};

/** `trace`: the JSON of the trace's id. */
function idTexts(row: ObservationRow, traceId: string, trace: string): IdTexts {
  const [key, parent, external] = [row[ROW.KEY], row[ROW.PARENT], row[ROW.EXTERNAL]];
  // The column has JSON, or a word for ids that follow from the row.
  const isJson = external === null || external.startsWith('{');
  const isSpan =
    isSpanKey(traceId, key) &&
    (parent === null || isSpanKey(traceId, parent)) &&
    (isJson || isDerivedWord(external));
  if (isSpan && row[ROW.LONG_ID] === null) {
    return spanTexts(key, parent, trace, external);
  }
  const id = idOf(traceId, key, row[ROW.LONG_ID]);
  const parentId = parentFromColumn(traceId, parent);
  return {
    id: JSON.stringify(id),
    parentId: textJson(parentId),
    external: isJson
      ? external
      : JSON.stringify(externalFromColumn(external, traceId, id, parentId)),
  };
}

/** The ids of an OTLP span: that of its trace with the key behind it, whose JSON is made of the JSON of both. */
function spanTexts(
  key: string,
  parent: string | null,
  trace: string,
  external: string | null,
): IdTexts {
  const span = JSON.stringify(key);
  const parentSpan = parent === null ? null : JSON.stringify(parent);
  const begin = trace.slice(0, -1);
  return {
    id: begin + span.slice(1),
    parentId: parentSpan === null ? null : begin + parentSpan.slice(1),
    external:
      external !== null && isDerivedWord(external)
        ? derivedText(trace, span, external === DERIVED ? null : parentSpan)
        : external,
  };
}

function derivedText(trace: string, span: string, parentSpan: string | null): string {
  const ids = `{"trace_id":${trace},"span_id":${behindColon(span)}`;
  return parentSpan === null ? `${ids}}` : `${ids},"parent_span_id":${behindColon(parentSpan)}}`;
}

/** The JSON of a key without the colon that it begins with. */
function behindColon(json: string): string {
  return `"${json.slice(2)}`;
}

const NO_DETAILS = detailsJson({}, null);

function detailsText(column: string | null, tool: string | null): string {
  if (column === null && tool === null) return NO_DETAILS;
  return detailsJson(detailsFromColumn(column) ?? {}, tool);
}
