import type { ObservationDetails } from '../../model/details.ts';
import { millisecondsBetween } from '../../model/details.ts';
import type { Instant } from '../../model/observation.ts';
import {
  attachmentMembers,
  costMembers,
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
      `,"created_at":"${timeText(createdAt)}","updated_at":"${timeText(updatedAt)}"` +
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

const NO_DETAILS = textOfDetails({}, null);

function detailsText(column: string | null, tool: string | null): string {
  if (column === null && tool === null) return NO_DETAILS;
  return textOfDetails(detailsFromColumn(column) ?? {}, tool);
}

function textOfDetails(details: ObservationDetails, tool: string | null): string {
  const { tags, promptName, promptVersion, cost, ignored, attachments = [] } = details;
  const hasPrompt = promptName !== undefined || promptVersion !== undefined;
  const prompt = { name: promptName ?? null, version: promptVersion ?? null };
  return (
    `,"provider":${textJson(details.provider ?? null)}` +
    `,"environment":${textJson(details.environment ?? null)}` +
    `,"release":${textJson(details.release ?? null)}` +
    `,"tags":${tags === undefined ? '[]' : JSON.stringify(tags)}` +
    `,"prompt":${hasPrompt ? JSON.stringify(prompt) : null}` +
    `,"tool":${textJson(details.tool ?? tool)},"ttft_ms":${details.ttftMs ?? null}` +
    `,"cost":${cost === undefined ? null : JSON.stringify(costMembers(cost))}` +
    `,"cost_source":${wordJson(cost?.source ?? null)}` +
    `,"ignored":${ignored === undefined ? '[]' : JSON.stringify(ignored)}` +
    `,"attachments":${JSON.stringify(attachments.map(attachmentMembers))}`
  );
}

/** The time that was formatted last, and its text: events of a batch arrive at the same time. */
let formattedMs = 0;
let formattedText = new Date(0).toISOString();

function timeText(ms: number): string {
  if (ms !== formattedMs) {
    formattedText = new Date(ms).toISOString();
    formattedMs = ms;
  }
  return formattedText;
}
