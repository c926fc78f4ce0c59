import type { OtlpIndex } from '../batch-index.ts';
import type { ScanLimits } from '../format-module.ts';
import {
  EVALUATION_RESULT,
  GENAI_PREFIX,
  OPERATION_DETAILS,
  REPEATING_SCOPES,
} from '../log-events.ts';
import { ownCopyOf } from '../own-memory.ts';
import { resourceAt, scopeAt, scopeField, scopeName, spanField } from './context.ts';
import type { OtlpRequest } from './encode.ts';
import { encodeOtlp } from './encode.ts';
import { MAX_DECODED_WEIGHT, OTLP_STRIDE, OtlpField, SCOPE_STRIDE, ScopeField } from './fields.ts';
import { scanJsonLogs } from './json-scan.ts';
import { spansOfAgentEvent } from './log-agents.ts';
import { JoinedSpan, spanOfGenAiEvent } from './log-genai.ts';
import { logRecordAt } from './log-record.ts';
import { scanProto, scanProtoLogs } from './scan.ts';
import type { OtlpSpan } from './span.ts';
import { tooHeavy } from './weight.ts';

/** The spans that the records of a request became. */
export type ConvertedLogs = {
  /** An ExportTraceServiceRequest in protobuf. */
  readonly body: Buffer;
  readonly index: OtlpIndex;
  readonly logs: LogCounts;
};

export type LogCounts = {
  /** Records that are no events of LLM calls. */
  readonly unsupported: number;
  /** Messages without the ids of a span that they could be joined to. */
  readonly detached: number;
  /** Records that repeat a span of their client. */
  readonly repeated: number;
  /** Records with too many keys, or behind those that have as many as a request may have. */
  readonly heavy: number;
  /** The number of records of each item, and the place of its first one in the request. */
  readonly recordsOf: readonly number[];
  readonly firstOf: readonly number[];
};

/** An event makes at most two spans. */
const SPANS_OF_EVENT = 2;

/**
 * An ExportLogsServiceRequest as spans, from which observations are made by the rules for spans:
 *
 *   record ─┬─ claude_code.*, codex.*   spans with ids made from the record (log-agents.ts)
 *           ├─ gen_ai.*, with a span    joined with the others of the span (log-genai.ts)
 *           ├─ gen_ai.*, without        a span of its own, if it describes a whole call or evaluation
 *           └─ any other                counted
 *
 * Throws a `Refusal` for a body that is no such request, or has too many records.
 */
export function convertLogs(
  type: OtlpIndex['type'],
  bytes: Buffer,
  limits: ScanLimits,
): ConvertedLogs {
  const index = type === 'otlp_proto' ? scanProtoLogs(bytes, limits) : scanJsonLogs(bytes, limits);
  const conversion = new Conversion(index);
  // A stored body owns its memory.
  const body = ownCopyOf(encodeOtlp(conversion.request(), 'proto'));
  const maxItems = limits.maxItems * SPANS_OF_EVENT;
  return { body, index: scanProto(body, { maxItems }), logs: conversion.counts() };
}

type Item = { span: OtlpSpan | JoinedSpan; records: number; first: number };
type Scope = OtlpRequest['resourceSpans'][number]['scopeSpans'][number];

function repeatsSpans(scope: string | null): boolean {
  const { names, beginning } = REPEATING_SCOPES;
  return names.some((name) => name === scope) || scope?.startsWith(beginning) === true;
}

class Conversion {
  readonly #index: OtlpIndex;
  readonly #items: Item[] = [];
  #unsupported = 0;
  #detached = 0;
  #repeated = 0;
  #heavy = 0;
  /** Of the records that were decoded. */
  #weight = 0;

  constructor(index: OtlpIndex) {
    this.#index = index;
  }

  counts(): LogCounts {
    return {
      unsupported: this.#unsupported,
      detached: this.#detached,
      repeated: this.#repeated,
      heavy: this.#heavy,
      recordsOf: this.#items.map(({ records }) => records),
      firstOf: this.#items.map(({ first }) => first),
    };
  }

  /** Resources and scopes without spans are left out. */
  request(): OtlpRequest {
    const index = this.#index;
    const resources = new Map<number, Scope[]>();
    const scopes = index.scopes.length / SCOPE_STRIDE;
    for (let scope = 0; scope < scopes; scope++) {
      const spans = this.#spansOfScope(scope);
      if (spans.length === 0) continue;
      const resource = scopeField(index, scope, ScopeField.RESOURCE);
      const known = resources.get(resource) ?? [];
      resources.set(resource, known);
      known.push({ scope: scopeAt(index, scope), spans });
    }
    return {
      resourceSpans: [...resources].map(([resource, scopeSpans]) => ({
        resource: resourceAt(index, resource),
        scopeSpans,
      })),
    };
  }

  #spansOfScope(scope: number): OtlpSpan[] {
    const index = this.#index;
    const first = this.#items.length;
    const joined = new Map<string, Item>();
    const count = index.spans.length / OTLP_STRIDE;
    let position = scopeField(index, scope, ScopeField.FIRST_SPAN);
    while (position < count && spanField(index, position, OtlpField.SCOPE) === scope) {
      this.#take(position++, scope, joined);
    }
    return this.#items
      .slice(first)
      .map(({ span }) => (span instanceof JoinedSpan ? span.span() : span));
  }

  #take(position: number, scope: number, joined: Map<string, Item>): void {
    this.#weight += spanField(this.#index, position, OtlpField.WEIGHT);
    if (tooHeavy(this.#index, position) !== undefined || this.#weight > MAX_DECODED_WEIGHT) {
      this.#heavy++;
      return;
    }
    const from = scopeName(this.#index, scope);
    const record = logRecordAt(this.#index, position, from);
    const { event, traceId, spanId } = record;
    if (event === undefined) {
      this.#unsupported++;
      return;
    }
    if (!event.startsWith(GENAI_PREFIX)) {
      for (const [place, span] of spansOfAgentEvent(record, event).entries()) {
        this.#items.push({ span, records: place === 0 ? 1 : 0, first: position });
      }
      return;
    }
    if (event === OPERATION_DETAILS && repeatsSpans(from)) {
      this.#repeated++;
      return;
    }
    const hasSpan = traceId !== undefined && spanId !== undefined;
    if (!hasSpan || event === EVALUATION_RESULT) {
      const span = spanOfGenAiEvent(record, event);
      if (span === undefined) this.#detached++;
      else this.#items.push({ span, records: 1, first: position });
      return;
    }
    const key = `${traceId}:${spanId}`;
    const known = joined.get(key);
    const item = known ?? { span: new JoinedSpan(traceId, spanId), records: 0, first: position };
    if (known === undefined) {
      joined.set(key, item);
      this.#items.push(item);
    }
    item.records++;
    if (item.span instanceof JoinedSpan) item.span.add(record, event);
  }
}
