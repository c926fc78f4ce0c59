import type { Cost, ObservationDetails } from '../model/details.ts';
import { formatInstant } from '../model/instant.ts';
import type { Instant, PayloadField } from '../model/observation.ts';
import { PAYLOAD_FIELDS } from '../model/observation.ts';
import type { StoredObservation, StoredTrace } from './store.ts';

/** The source of the public form. A single event of an observation may lack its trace. */
export type RenderedObservation = Omit<StoredObservation, 'traceId' | 'payload'> & {
  readonly traceId: string | null;
};

/** Payload fields of one observation as JSON text; absent ones read as null. */
export type PayloadTexts = Partial<Record<PayloadField, string>>;

/**
 * The public form of an observation: what the reading requests answer and what a line of the `file`
 * exporter holds. Payload texts are spliced in as they were sent, so that every number keeps its
 * spelling. Without `payloads` the payload fields are left out.
 */
export function observationJson(
  stored: RenderedObservation,
  payloads: PayloadTexts | undefined,
): string {
  const narrow = JSON.stringify({
    id: stored.id,
    trace_id: stored.traceId,
    parent_id: stored.parentId,
    name: stored.name,
    kind: stored.kind,
    status: stored.status,
    start_time: formatted(stored.startTime),
    end_time: formatted(stored.endTime),
    usage: stored.usage,
    model: stored.model,
    error: stored.error,
    event_version: stored.version,
    ended: stored.ended,
    session_id: stored.sessionId,
    user_id: stored.userId,
    external: stored.external,
    ...detailMembers(stored.details ?? {}),
    source: stored.source,
    project_id: stored.projectId,
    created_at: new Date(stored.createdAt).toISOString(),
    updated_at: new Date(stored.updatedAt).toISOString(),
  });
  const customFields = stored.customFieldsText ?? JSON.stringify(stored.customFields ?? {});
  let text = `${narrow.slice(0, -1)},"custom_fields":${customFields}`;
  if (payloads === undefined) return `${text}}`;
  for (const field of PAYLOAD_FIELDS) text += `,"${field}":${payloads[field] ?? 'null'}`;
  return `${text}}`;
}

/** The public members of the details; money in USD. */
function detailMembers(details: ObservationDetails): Readonly<Record<string, unknown>> {
  const { promptName, promptVersion, cost } = details;
  const hasPrompt = promptName !== undefined || promptVersion !== undefined;
  return {
    provider: details.provider ?? null,
    environment: details.environment ?? null,
    release: details.release ?? null,
    tags: details.tags ?? [],
    prompt: hasPrompt ? { name: promptName ?? null, version: promptVersion ?? null } : null,
    tool: details.tool ?? null,
    ttft_ms: details.ttftMs ?? null,
    cost: cost === undefined ? null : costMembers(cost),
    cost_source: cost?.source ?? null,
  };
}

function costMembers({
  input,
  output,
  total,
}: Omit<Cost, 'source'>): Readonly<Record<string, unknown>> {
  return { input: usdOf(input), output: usdOf(output), total: usdOf(total), currency: 'USD' };
}

export function usdOf(nanos: number | null): number | null {
  return nanos === null ? null : nanos / 1e9;
}

export function traceJson(trace: StoredTrace): string {
  return JSON.stringify({
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
    clock_skew: trace.clockSkew,
  });
}

function formatted(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant);
}
