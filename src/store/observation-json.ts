import type { Attachment } from '../model/attachments.ts';
import type { Cost, ObservationDetails } from '../model/details.ts';
import { millisecondsBetween } from '../model/details.ts';
import { formatInstant, formatMs } from '../model/instant.ts';
import { decodeJsonText } from '../model/json/decode.ts';
import type {
  Instant,
  ObservationError,
  ObservationKind,
  PayloadField,
  TraceState,
} from '../model/observation.ts';
import { PAYLOAD_FIELDS } from '../model/observation.ts';
import type { StoredObservation, StoredTrace } from './store.ts';

/** The source of the public form. A single event of an observation may lack its trace. */
export type RenderedObservation = Omit<StoredObservation, 'traceId' | 'payload' | 'state'> & {
  readonly traceId: string | null;
  /** Left out for a single event: the state depends on the whole trace. */
  readonly state?: TraceState;
};

/** Payload fields of one observation as JSON text; absent ones read as null. */
export type PayloadTexts = Partial<Record<PayloadField, string>>;

/**
 * The public form of an observation: what the reading requests answer and what a line of the `file`
 * exporter holds. Payload texts are spliced in as they were sent, so that every number keeps its
 * spelling. Without `payloads` the payload fields are left out, and without `place` its members.
 */
export function observationJson(
  stored: RenderedObservation,
  payloads: PayloadTexts | undefined,
  place?: TreePlace,
): string {
  let text = narrowText(stored, place);
  if (payloads === undefined) return `${text}}`;
  for (const field of PAYLOAD_FIELDS) text += `,"${field}":${payloads[field] ?? 'null'}`;
  return `${text}}`;
}

/**
 * `observationMembers` and the custom fields, without the closing brace. Hot path, runs for every line of the `file` exporter: an
 * object and `JSON.stringify` cost twice as much.
 */
function narrowText(stored: RenderedObservation, place: TreePlace | undefined): string {
  const { usage, error, external, startTime, endTime } = stored;
  const state = stored.state === undefined ? '' : `,"state":"${stored.state}"`;
  const inTree = place === undefined ? '' : placeJson(place);
  return (
    `{"id":${JSON.stringify(stored.id)},"trace_id":${textJson(stored.traceId)}` +
    `,"parent_id":${textJson(stored.parentId)},"name":${textJson(stored.name)}` +
    `,"kind":${wordJson(stored.kind)},"status":${wordJson(stored.status)}${state}` +
    `,"start_time":${timeJson(startTime)},"end_time":${timeJson(endTime)}` +
    `,"latency_ms":${latencyOf(stored)},"usage":${usage === null ? null : JSON.stringify(usage)}` +
    `${inTree},"model":${textJson(stored.model)}` +
    `,"error":${error === null ? null : JSON.stringify(error)}` +
    `,"event_version":${JSON.stringify(stored.version)},"ended":${stored.ended}` +
    `,"session_id":${textJson(stored.sessionId)},"user_id":${textJson(stored.userId)}` +
    `,"external":${external === null ? null : JSON.stringify(external)}` +
    detailsJson(stored.details ?? {}, unnamedTool(stored.kind, stored.name)) +
    `,"source":${wordJson(stored.source)},"project_id":${JSON.stringify(stored.projectId)}` +
    `,"created_at":"${formatMs(stored.createdAt)}","updated_at":"${formatMs(stored.updatedAt)}"` +
    `,"custom_fields":${stored.customFieldsText ?? JSON.stringify(stored.customFields ?? {})}`
  );
}

function placeMembers({ counted, costCounted, cycle }: TreePlace) {
  return { counted, cost_counted: costCounted, cycle };
}

function placeJson({ counted, costCounted, cycle }: Record<keyof TreePlace, unknown>): string {
  return `,"counted":${counted},"cost_counted":${costCounted},"cycle":${cycle}`;
}

/** The members of `detailMembers` as text. `tool`: that of an observation whose details name none. */
export function detailsJson(details: ObservationDetails, tool: string | null): string {
  const { tags, promptName, promptVersion, cost, ignored, attachments } = details;
  const hasPrompt = promptName !== undefined || promptVersion !== undefined;
  const prompt = { name: promptName ?? null, version: promptVersion ?? null };
  return (
    `,"provider":${textJson(details.provider ?? null)}` +
    `,"environment":${textJson(details.environment ?? null)}` +
    `,"release":${textJson(details.release ?? null)}` +
    `,"tags":${tags === undefined ? '[]' : JSON.stringify(tags)}` +
    `,"prompt":${hasPrompt ? JSON.stringify(prompt) : null}` +
    `,"tool":${textJson(details.tool ?? tool)},"ttft_ms":${details.ttftMs ?? null}` +
    `,"cost":${cost === undefined ? null : costJson(cost)}` +
    `,"cost_source":${wordJson(cost?.source ?? null)}` +
    `,"ignored":${ignored === undefined ? '[]' : JSON.stringify(ignored)}` +
    `,"attachments":${attachments === undefined ? '[]' : JSON.stringify(attachments.map(attachmentMembers))}`
  );
}

/** The members of the public form, without the custom fields and the payloads. */
export function observationMembers(
  stored: RenderedObservation,
  place?: TreePlace,
): Readonly<Record<string, unknown>> {
  return {
    id: stored.id,
    trace_id: stored.traceId,
    parent_id: stored.parentId,
    name: stored.name,
    kind: stored.kind,
    status: stored.status,
    state: stored.state,
    start_time: formatted(stored.startTime),
    end_time: formatted(stored.endTime),
    latency_ms: latencyOf(stored),
    usage: stored.usage,
    ...(place === undefined ? {} : placeMembers(place)),
    model: stored.model,
    error: stored.error,
    event_version: stored.version,
    ended: stored.ended,
    session_id: stored.sessionId,
    user_id: stored.userId,
    external: stored.external,
    ...detailMembers(stored.details ?? {}, toolOf(stored)),
    source: stored.source,
    project_id: stored.projectId,
    created_at: formatMs(stored.createdAt),
    updated_at: formatMs(stored.updatedAt),
  };
}

function toolOf({ kind, name, details }: RenderedObservation) {
  return details?.tool ?? unnamedTool(kind, name);
}

/** The name of an observation of kind `tool` is that of the tool, unless the client sends another one. */
export function unnamedTool(kind: ObservationKind | null, name: string | null): string | null {
  return kind === 'tool' ? name : null;
}

/** The public members of the details; money in USD. */
function detailMembers(
  details: ObservationDetails,
  tool: string | null,
): Readonly<Record<string, unknown>> {
  const { promptName, promptVersion, cost } = details;
  const hasPrompt = promptName !== undefined || promptVersion !== undefined;
  return {
    provider: details.provider ?? null,
    environment: details.environment ?? null,
    release: details.release ?? null,
    tags: details.tags ?? [],
    prompt: hasPrompt ? { name: promptName ?? null, version: promptVersion ?? null } : null,
    tool,
    ttft_ms: details.ttftMs ?? null,
    cost: cost === undefined ? null : costMembers(cost),
    cost_source: cost?.source ?? null,
    ignored: details.ignored ?? [],
    attachments: (details.attachments ?? []).map(attachmentMembers),
  };
}

function attachmentMembers({ name, contentType, bytes, sha256 }: Attachment) {
  const url = `/api/v1/attachments/${sha256}`;
  return { name, mime_type: contentType, bytes, sha256, url };
}

/** The place of an observation in the tree of its trace. */
export type TreePlace = {
  /** Its own usage is in the totals of the trace; without usage, its own cost is. */
  readonly counted: boolean;
  /** Its own cost is in the totals of the trace. */
  readonly costCounted: boolean;
  /** A cycle of parents is broken here: the observation counts as a root. */
  readonly cycle: boolean;
};

/** The part of an observation that the tree of its trace shows. */
export type NarrowObservation = Pick<
  StoredObservation,
  'id' | 'parentId' | 'name' | 'kind' | 'status' | 'state' | 'model' | 'details' | 'updatedAt'
> & {
  readonly startMs: number | null;
  readonly startNs: number | null;
  readonly endMs: number | null;
  readonly endNs: number | null;
  /** JSON of a `TokenUsage`. */
  readonly usage: string | null;
  /** JSON of an `ObservationError`. */
  readonly error: string | null;
};

/**
 * An observation in the tree of its trace: without payloads, and with their sizes. Its place is left blank, for `fillPlaces`.
 * Hot path, runs for every observation of a trace: an object and `JSON.stringify` cost twice as much.
 */
export function treeJson(observation: NarrowObservation): string {
  const { startMs, startNs, endMs, endNs, error, usage } = observation;
  const details = observation.details ?? {};
  const { cost } = details;
  const start = startMs === null ? null : { ms: startMs, ns: startNs ?? 0 };
  const end = endMs === null ? null : { ms: endMs, ns: endNs ?? 0 };
  const latency = millisecondsBetween(start, end);
  return (
    `{"id":${JSON.stringify(observation.id)},"parent_id":${textJson(observation.parentId)}` +
    `,"name":${textJson(observation.name)},"kind":${wordJson(observation.kind)}` +
    `,"status":${wordJson(observation.status)},"state":"${observation.state}"` +
    `,"start_time":${timeJson(start)},"end_time":${timeJson(end)}` +
    `,"latency_ms":${latency ?? null},"ttft_ms":${details.ttftMs ?? null}` +
    `,"model":${textJson(observation.model)},"provider":${textJson(details.provider ?? null)}` +
    `,"usage":${usage ?? null}` +
    `,"cost":${cost === undefined ? null : costJson(cost)}` +
    `,"cost_source":${wordJson(cost?.source ?? null)}` +
    placeJson(BLANK_PLACE) +
    `,"input_bytes":${details.inputBytes ?? null},"output_bytes":${details.outputBytes ?? null}` +
    `,"error":${error === null ? null : errorJson(error)}` +
    `,"updated_at":"${formatMs(observation.updatedAt)}"}`
  );
}

/** As long as `false`. JSON has no such character, not even in a text. */
const BLANK = '\0'.repeat('false'.length);
const BLANK_PLACE = { counted: BLANK, costCounted: BLANK, cycle: BLANK };

/** Fills the blanks of observations, in their order. */
export function fillPlaces(texts: Buffer, places: Iterable<TreePlace>): void {
  let at = 0;
  for (const { counted, costCounted, cycle } of places) {
    for (const value of [counted, costCounted, cycle]) {
      at = texts.indexOf(0, at);
      at += texts.write(wordOf(value), at, 'latin1');
    }
  }
}

function wordOf(value: boolean): string {
  return value ? ' true' : 'false';
}

export function textJson(text: string | null): string | null {
  return text === null ? null : JSON.stringify(text);
}

/** For a word of the product, which has nothing to escape. */
export function wordJson(word: string | null): string | null {
  return word === null ? null : `"${word}"`;
}

export function timeJson(time: Instant | null): string | null {
  return time === null ? null : `"${formatInstant(time)}"`;
}

function errorJson(text: string): string {
  const { type, message } = decodeJsonText(text) as ObservationError;
  return JSON.stringify({ type, message });
}

function latencyOf({ startTime, endTime }: Pick<StoredObservation, 'startTime' | 'endTime'>) {
  return millisecondsBetween(startTime, endTime) ?? null;
}

function costMembers({
  input,
  output,
  total,
}: Omit<Cost, 'source'>): Readonly<Record<string, unknown>> {
  return { input: usdOf(input), output: usdOf(output), total: usdOf(total), currency: 'USD' };
}

function costJson({ input, output, total }: Omit<Cost, 'source'>): string {
  return `{"input":${usdJson(input)},"output":${usdJson(output)},"total":${usdJson(total)},"currency":"USD"}`;
}

function usdJson(nanos: number | null): string {
  const usd = usdOf(nanos);
  return usd === null || !Number.isFinite(usd) ? 'null' : String(usd);
}

export function usdOf(nanos: number | null): number | null {
  return nanos === null ? null : nanos / 1e9;
}

export function traceJson(trace: StoredTrace): string {
  return JSON.stringify(traceMembers(trace));
}

/** The members of the public form. */
export function traceMembers(trace: StoredTrace): Readonly<Record<string, unknown>> {
  return {
    id: trace.id,
    name: trace.name,
    status: trace.status,
    state: trace.state,
    start_time: formatted(trace.startTime),
    end_time: formatted(trace.endTime),
    latency_ms: trace.latencyMs,
    ttft_ms: trace.ttftMs,
    observation_count: trace.observationCount,
    error_count: trace.errorCount,
    models: trace.models,
    session_id: trace.sessionId,
    user_id: trace.userId,
    key_id: trace.keyId,
    source: trace.source,
    environment: trace.environment,
    release: trace.release,
    tags: trace.tags,
    custom_fields: trace.customFields,
    usage: trace.usage,
    cost: trace.cost === null ? null : costMembers(trace.cost),
    scores: trace.scores,
    input_preview: trace.inputPreview,
    output_preview: trace.outputPreview,
    clock_skew: trace.clockSkew,
  };
}

function formatted(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant);
}
