import { attributeKey } from '../attributes.ts';
import type { ObservationDetails } from '../details.ts';
import type {
  Instant,
  Observation,
  ObservationOperation,
  ObservationStatus,
} from '../observation.ts';
import { PAYLOAD_FIELDS } from '../observation.ts';
import { isSentTwice, LANGSMITH_SCOPE } from '../sent-twice.ts';
import { takeCallEvent } from './call-event.ts';
import { DetailFacts } from './detail-facts.ts';
import type { EmbeddedFields } from './embedded-observation.ts';
import { SpanFacts } from './facts.ts';
import type { OtlpEvent, OtlpKeyValue, OtlpSpan } from './span.ts';
import { statusCode } from './span.ts';
import { hasValue } from './value.ts';

/** The fields of a span without its attributes, of either encoding. Ids are lower-case hex. */
export type SpanHead = {
  readonly traceId: string;
  /** That of the trace, a colon, and `spanId`. */
  readonly id: string;
  readonly spanId: string;
  readonly parentId: string | null;
  readonly parentSpanId: string | null;
  readonly name: string | null;
  /** 0 unset, 1 ok, 2 error. */
  readonly status: 0 | 1 | 2;
  readonly startTime: Instant | null;
  readonly endTime: Instant | null;
  readonly hasEvents: boolean;
  /** The name of its instrumentation scope. */
  readonly scope: string | null;
};

const [INPUTS, OUTPUTS, EVENTS, METADATA, CONTEXT_METADATA] = PAYLOAD_FIELDS.map(
  (_, i) => 1 << i,
) as [number, number, number, number, number];

/** A span as an observation; `resource` has the facts of its resource. */
export function observationOfSpan(
  head: SpanHead,
  facts: SpanFacts,
  resource: SpanFacts | undefined,
  index: number,
): Observation {
  if (facts.embedded !== undefined) return embeddedObservation(facts.embedded, head, facts, index);
  const ended = head.endTime !== null;
  let operation: ObservationOperation = ended ? 'finish' : 'start';
  let status: ObservationStatus = 'pending';
  const error = facts.error();
  // LangSmith's JS client has said that the span is OK when the error of the run comes, and OpenTelemetry keeps the first OK.
  const isFailed = facts.isFailed || (error !== null && head.scope === LANGSMITH_SCOPE);
  if (head.status === 2 || isFailed) {
    operation = 'error';
    status = 'error';
  } else if (head.status === 1) {
    operation = 'finish';
    status = 'success';
  }
  const external: Record<string, string> = { trace_id: head.traceId, span_id: head.spanId };
  const sentParent = facts.originalParent ?? head.parentSpanId;
  if (sentParent !== null) external.parent_span_id = sentParent;
  let payloadMask = METADATA;
  if (facts.input.present) payloadMask |= INPUTS;
  if (facts.output.present) payloadMask |= OUTPUTS;
  if (head.hasEvents) payloadMask |= EVENTS;
  if (facts.hasContextMetadata) payloadMask |= CONTEXT_METADATA;
  const observation: Observation = {
    id: head.id,
    traceId: head.traceId,
    parentId: head.parentId,
    index,
    operation,
    version: '0',
    name: head.name,
    kind: facts.kind ?? 'span',
    status,
    startTime: head.startTime,
    endTime: head.endTime,
    ended: ended || head.status !== 0 || isFailed,
    model: facts.model?.text ?? null,
    usage: facts.usageOf(head.scope),
    sessionId: facts.session?.text ?? resource?.session?.text ?? null,
    userId: facts.user?.text ?? resource?.user?.text ?? null,
    error,
    customFields: facts.customFields(resource),
    external,
    details: detailsOfSpan(head, facts, resource),
    payloadMask,
  };
  const { tracing } = facts;
  if (tracing === undefined || head.scope !== LANGSMITH_SCOPE) return observation;
  return isSentTwice(tracing) ? { ...observation, sentTwice: true } : observation;
}

const NO_DETAILS = new DetailFacts();

function detailsOfSpan(
  { startTime: start, endTime: end, scope }: SpanHead,
  facts: SpanFacts,
  resource: SpanFacts | undefined,
): ObservationDetails | null {
  const { details = NO_DETAILS, input, output, isModelCall, provider, ignored } = facts;
  const bytes = { inputBytes: input.bytes, outputBytes: output.bytes };
  const measures = { start, end, scope, isModelCall, provider, ...bytes, ignored };
  return details.details(measures, resource?.details);
}

/** An observation that another tracectl embedded in a span. */
function embeddedObservation(
  { forms, name, ...fields }: EmbeddedFields,
  head: SpanHead,
  facts: SpanFacts,
  index: number,
): Observation {
  let payloadMask = 0;
  for (const [bit, field] of PAYLOAD_FIELDS.entries()) {
    if (forms[field] !== undefined) payloadMask |= 1 << bit;
  }
  return {
    ...fields,
    index,
    name: name === undefined ? head.name : name,
    customFields: facts.customFields(undefined),
    payloadMask,
  };
}

/** The facts of a decoded span's attributes, events and status. */
export function factsOfSpan(span: OtlpSpan): SpanFacts {
  const facts = factsOfAttributes(span.attributes);
  takeRest(facts, span);
  return facts;
}

/** Takes the events and the status of a span. */
export function takeRest(facts: SpanFacts, span: OtlpSpan): void {
  for (const event of span.events ?? []) takeEvent(facts, event);
  if (statusCode(span.status?.code) === 2) facts.takeStatusMessage(span.status?.message ?? '');
}

export function factsOfAttributes(
  attributes: readonly OtlpKeyValue[] | null | undefined,
): SpanFacts {
  const facts = new SpanFacts();
  takeAttributes(facts, attributes ?? []);
  return facts;
}

export function takeAttributes(facts: SpanFacts, attributes: readonly OtlpKeyValue[]): void {
  for (const { key, value } of attributes) {
    if (hasValue(value)) facts.take(attributeKey(key ?? ''), value);
  }
}

function takeEvent(facts: SpanFacts, event: OtlpEvent): void {
  switch (attributeKey(event.name ?? '').event) {
    case 'exception':
      for (const { key, value } of event.attributes ?? []) {
        if (hasValue(value)) facts.takeFromException(key ?? '', value);
      }
      break;
    case 'input':
      facts.input.inEvents = true;
      break;
    case 'output':
      facts.output.inEvents = true;
      break;
    case 'token':
      facts.takeToken(instantOfNanos(event.timeUnixNano));
      break;
    case 'call':
      takeCallEvent(facts, event.name ?? '', event.attributes ?? []);
      break;
    case 'both':
      for (const { key, value } of event.attributes ?? []) {
        if (!hasValue(value)) continue;
        if (key === 'gen_ai.input.messages') facts.input.inEvents = true;
        if (key === 'gen_ai.output.messages') facts.output.inEvents = true;
      }
      break;
    default:
  }
}

export function spanHeadOf(span: OtlpSpan, scope: string | null): SpanHead {
  const parent = span.parentSpanId?.toLowerCase() ?? '';
  // A pipeline without validation takes spans with an invalid parent, which have none in either encoding.
  const hasParent = /^[0-9a-f]{16}$/.test(parent) && !/^0*$/.test(parent);
  const traceId = (span.traceId ?? '').toLowerCase();
  const spanId = (span.spanId ?? '').toLowerCase();
  return {
    traceId,
    id: `${traceId}:${spanId}`,
    spanId,
    parentId: hasParent ? `${traceId}:${parent}` : null,
    parentSpanId: hasParent ? parent : null,
    name: span.name || null,
    status: statusCode(span.status?.code),
    startTime: instantOfNanos(span.startTimeUnixNano),
    endTime: instantOfNanos(span.endTimeUnixNano),
    hasEvents: (span.events?.length ?? 0) > 0,
    scope,
  };
}

/** The instant of nanoseconds since the epoch; null for 0, which is OTLP's absent time. */
export function instantOfNanos(nanos: string | number | null | undefined): Instant | null {
  if (nanos === undefined || nanos === null) return null;
  const instant = typeof nanos === 'string' ? instantOfDigits(nanos) : undefined;
  if (instant !== undefined) return instant;
  const value = BigInt(nanos);
  if (value === 0n) return null;
  return { ms: Number(value / 1_000_000n), ns: Number(value % 1_000_000n) };
}

/** Hot path: digits cost less than a BigInt and than texts of both halves. Undefined for any other text. */
function instantOfDigits(text: string): Instant | undefined {
  const { length } = text;
  if (length < 7 || length > 20 || text.charCodeAt(0) === ZERO) return undefined;
  let ms = 0;
  let ns = 0;
  for (let at = 0; at < length; at++) {
    const digit = text.charCodeAt(at) - ZERO;
    if (!(digit >= 0 && digit <= 9)) return undefined;
    if (at < length - 6) ms = ms * 10 + digit;
    else ns = ns * 10 + digit;
  }
  return { ms, ns };
}

const ZERO = 0x30;
