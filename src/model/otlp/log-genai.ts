import type { AttributeRule } from '../attributes.ts';
import { attributeKey } from '../attributes.ts';
import {
  EVALUATION_OUTPUT,
  EVALUATION_RESULT,
  INSTANT_EVENTS,
  OPERATION_DETAILS,
} from '../log-events.ts';
import { EventAttributes, finiteNumber } from './event-attributes.ts';
import { hashedId, setKind } from './log-agents.ts';
import type { LogRecord } from './log-record.ts';
import { isWholeMessage, WHOLE_MESSAGE } from './messages.ts';
import type { OtlpEvent, OtlpKeyValue, OtlpSpan, OtlpValue } from './span.ts';
import { valueText } from './value.ts';

/**
 * A span with the ids of another one, which has its log events. It has no name, end and status, so it yields to the span itself
 * in whatever order they arrive.
 */
export class JoinedSpan {
  readonly #traceId: string;
  readonly #spanId: string;
  #start: bigint | undefined;
  readonly #attributes: OtlpKeyValue[] = [];
  /** The keys of the attributes: a search of the list for each record would take quadratic time. */
  readonly #keys = new Set<string>();
  readonly #events: OtlpEvent[] = [];

  constructor(traceId: string, spanId: string) {
    this.#traceId = traceId;
    this.#spanId = spanId;
  }

  add(record: LogRecord, name: string): void {
    const time = record.time === 0n ? record.observedTime : record.time;
    if (time !== 0n && (this.#start === undefined || time < this.#start)) this.#start = time;
    if (name === OPERATION_DETAILS) {
      for (const [key, value] of record.attributes) this.#addAttribute(key, value);
      if (record.body !== undefined) this.#addAttribute('log.body', record.body);
      return;
    }
    this.#takeOwner(record);
    this.#events.push({
      name,
      timeUnixNano: String(time),
      attributes: contentOf(record),
      droppedAttributesCount: record.droppedAttributesCount,
    });
  }

  /** Google ADK names the user in its messages only. The first record with a user or a session counts. */
  #takeOwner({ attributes }: LogRecord): void {
    for (const [key, value] of attributes) {
      const isOwner = attributeKey(key).rules.some(({ role }) => OWNER_ROLES.has(role));
      if (isOwner && !this.#keys.has(key)) this.#addAttribute(key, value);
    }
  }

  #addAttribute(key: string, value: OtlpValue): void {
    this.#keys.add(key);
    this.#attributes.push({ key, value });
  }

  span(): OtlpSpan {
    return {
      traceId: this.#traceId,
      spanId: this.#spanId,
      startTimeUnixNano: String(this.#start ?? 0),
      attributes: this.#attributes,
      events: this.#events,
    };
  }
}

const OWNER_ROLES: ReadonlySet<AttributeRule['role']> = new Set(['user', 'session']);

/** The attributes of a message as a span's event has them. Earlier conventions have its content in the body. */
function contentOf({ attributes, body }: LogRecord): OtlpKeyValue[] {
  const list = [...attributes].map(([key, value]) => ({ key, value }));
  const members = body?.kvlistValue?.values;
  if (Array.isArray(members)) return [...list, ...members];
  if (body === undefined) return list;
  const isMessage = isWholeMessage(body.stringValue ?? '');
  return [...list, { key: isMessage ? WHOLE_MESSAGE : 'content', value: body }];
}

/** An event that is an observation of its own: an evaluation, or a call without a span; undefined for any other. */
export function spanOfGenAiEvent(record: LogRecord, name: string): OtlpSpan | undefined {
  if (!INSTANT_EVENTS.has(name)) return undefined;
  const attributes = new EventAttributes(record.attributes);
  const seed = seedOf(record, name);
  const time = String(record.time === 0n ? record.observedTime : record.time);
  const isEvaluation = name === EVALUATION_RESULT;
  if (isEvaluation) addEvaluation(attributes);
  const type = attributes.text('error.type');
  const title = isEvaluation ? attributes.text('gen_ai.evaluation.name') : callName(attributes);
  attributes.set('event.name', { stringValue: name });
  if (record.body !== undefined) attributes.set('log.body', record.body);
  return {
    traceId: record.traceId ?? hashedId(16, ['gen_ai', ...seed]),
    spanId: hashedId(8, ['gen_ai', record.traceId ?? '', ...seed]),
    ...(record.spanId === undefined || !isEvaluation ? {} : { parentSpanId: record.spanId }),
    name: title || name,
    startTimeUnixNano: time,
    endTimeUnixNano: time,
    status: type === undefined ? { code: 1 } : { code: 2, message: type },
    droppedAttributesCount: record.droppedAttributesCount,
    attributes: attributes.list(''),
  };
}

function callName(attributes: EventAttributes): string {
  const parts = ['gen_ai.operation.name', 'gen_ai.request.model'].map((key) =>
    attributes.text(key),
  );
  return parts.filter((part) => part !== undefined).join(' ');
}

function addEvaluation(attributes: EventAttributes): void {
  setKind(attributes, 'evaluator');
  const values: OtlpKeyValue[] = [];
  for (const [member, key] of Object.entries(EVALUATION_OUTPUT)) {
    const value = attributes.read(key, 'text');
    if (value === undefined) continue;
    const number = member === 'score' ? finiteNumber(value.stringValue) : undefined;
    if (member === 'score' && number === undefined) attributes.ignore(key, 'number');
    else values.push({ key: member, value: scoreOr(value, number) });
  }
  if (values.length > 0) attributes.set('output.value', { kvlistValue: { values } });
}

function scoreOr(value: OtlpValue, number: number | undefined): OtlpValue {
  return number === undefined ? value : { doubleValue: number };
}

function seedOf({ time, observedTime, body, attributes, spanId }: LogRecord, name: string) {
  const sent = [...attributes].map(([key, value]) => `${key}=${valueText(value)}`);
  return [name, String(time === 0n ? observedTime : time), valueText(body), spanId ?? '', ...sent];
}
