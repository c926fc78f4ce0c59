import { hash } from 'node:crypto';
import { TRACE_NAME_KEY } from '../conventions.ts';
import { parseInstant, unixNanosOf } from '../instant.ts';
import type { EventRule, EventSource } from '../log-events.ts';
import {
  DURATION_KEY,
  EVENT_SOURCES,
  FAILURE_KEYS,
  FAILURE_STATUS_KEYS,
  FAILURE_TYPE_KEYS,
  INPUT_PARTS,
  LOG_EVENTS,
  OTHER_EVENT,
  PROMPT_INPUT,
  PROMPT_LENGTH_KEY,
  SUCCESS_KEY,
  TIMESTAMP_KEY,
} from '../log-events.ts';
import type { ObservationKind } from '../observation.ts';
import { EventAttributes, finiteNumber } from './event-attributes.ts';
import type { LogRecord } from './log-record.ts';
import type { OtlpSpan, OtlpValue } from './span.ts';
import { valueText } from './value.ts';

/**
 * The spans of an event of a coding agent. Their ids follow from the record alone, so a repeated request gives the same ones:
 *
 *   session, and prompt if it is known ─▶ trace id; its root ─▶ span id of the parent
 *   the id of a call, else the whole record ─▶ span id
 *
 * An event within a span of the client is in that span's trace, below the span.
 */
export function spansOfAgentEvent(record: LogRecord, name: string): OtlpSpan[] {
  const source = EVENT_SOURCES.find(({ prefix }) => name.startsWith(prefix));
  if (source === undefined) return [];
  const attributes = new EventAttributes(record.attributes);
  const error = errorOf(attributes);
  const rule = ruleOf(name, attributes, error !== undefined);
  if (rule === undefined) return [];
  return new AgentEvent({ record, name, source, attributes, rule, error }).spans();
}

/** Undefined for an event that is not stored. */
function ruleOf(
  name: string,
  attributes: EventAttributes,
  isFailed: boolean,
): EventRule | undefined {
  const rule = Object.hasOwn(LOG_EVENTS, name) ? (LOG_EVENTS[name] ?? OTHER_EVENT) : OTHER_EVENT;
  const { only, role, key } = rule;
  if (only !== undefined && !isChosen(attributes, only)) return isFailed ? OTHER_EVENT : undefined;
  // Without the key of its observation, an update is an event of its own.
  if (role === 'update' && attributes.text(key ?? '') === undefined) {
    return { attributes: rule.attributes, kind: 'event' } satisfies EventRule;
  }
  return rule;
}

function isChosen(attributes: EventAttributes, only: NonNullable<EventRule['only']>): boolean {
  return (
    attributes.text(only.key) === only.value &&
    (only.with === undefined || attributes.has(only.with))
  );
}

/** The message of a failed event, which may be empty; undefined for one that did not fail. */
function errorOf(attributes: EventAttributes): string | undefined {
  const message = FAILURE_KEYS.map((key) => attributes.text(key)).find((text) => text);
  const type = FAILURE_TYPE_KEYS.map((key) => attributes.text(key)).find((text) => text);
  const success = attributes.text(SUCCESS_KEY);
  if (success === 'false') return message ?? type ?? '';
  if (success === 'true') return undefined;
  if (attributes.has(SUCCESS_KEY)) attributes.ignore(SUCCESS_KEY, 'flag');
  if (message !== undefined || type !== undefined) return message ?? type;
  const status = FAILURE_STATUS_KEYS.map((key) => finiteNumber(attributes.text(key)));
  return status.some((code) => code !== undefined && code >= 400) ? '' : undefined;
}

type Parts = {
  readonly record: LogRecord;
  readonly name: string;
  readonly source: EventSource;
  readonly attributes: EventAttributes;
  readonly rule: EventRule;
  readonly error: string | undefined;
};

class AgentEvent {
  readonly #parts: Parts;
  readonly #time: bigint;
  readonly #session: string | undefined;
  readonly #turn: string | undefined;
  readonly #traceId: string;

  constructor(parts: Parts) {
    const { record, source, attributes } = parts;
    this.#parts = parts;
    this.#time = timeOf(record, attributes);
    this.#session = attributes.text(source.session);
    this.#turn = source.turn === undefined ? undefined : attributes.text(source.turn);
    this.#traceId = record.traceId ?? hashedId(16, [source.prefix, ...this.#group()]);
  }

  /** The events with the same members are one trace. */
  #group(): string[] {
    if (this.#turn !== undefined) return ['turn', this.#session ?? '', this.#turn];
    return this.#session === undefined ? ['record', this.#seed()] : ['session', this.#session];
  }

  /** Two records with equal content are one event. */
  #seed(): string {
    const { record, name } = this.#parts;
    const sent = [...record.attributes].map(([key, value]) => [key, valueText(value)]);
    return JSON.stringify([name, String(this.#time), valueText(record.body), sent]);
  }

  spans(): OtlpSpan[] {
    const { rule } = this.#parts;
    if (rule.role === 'update') return [this.#update()];
    const isRoot = rule.role === 'root' || (rule.role === 'prompt' && this.#turn !== undefined);
    if (isRoot && this.#hasOwnTrace) return [this.#root()];
    const event = this.#event();
    // The prompts of a session are events, and the last one is the input of its trace.
    return rule.role === 'prompt' && this.#hasRoot ? [event, this.#rootInput()] : [event];
  }

  get #hasOwnTrace(): boolean {
    return this.#parts.record.traceId === undefined;
  }

  get #hasRoot(): boolean {
    const isGrouped = this.#turn !== undefined || this.#session !== undefined;
    return isGrouped && this.#hasOwnTrace;
  }

  #root(): OtlpSpan {
    const { source } = this.#parts;
    return {
      ...this.#identity(this.#rootId),
      name: source.root,
      startTimeUnixNano: String(this.#time),
      // It ends with its last child, which this event does not know.
      status: this.#status(),
      ...this.#content('agent'),
    };
  }

  #rootInput(): OtlpSpan {
    const attributes = new EventAttributes(this.#parts.record.attributes);
    const { source } = this.#parts;
    return {
      ...this.#identity(this.#rootId),
      name: source.root,
      status: { code: 1 },
      ...this.#content('agent', attributes),
    };
  }

  #event(): OtlpSpan {
    const { attributes, rule, name } = this.#parts;
    const { start, end } = this.#times();
    const isPrompt = rule.role === 'prompt' || rule.role === 'root';
    return {
      ...this.#identity(this.#ownId(), this.#parentId),
      name: (rule.name === undefined ? undefined : attributes.text(rule.name)) ?? name,
      startTimeUnixNano: String(start),
      endTimeUnixNano: String(end),
      status: this.#status(),
      ...this.#content(isPrompt ? 'event' : rule.kind),
    };
  }

  /** Without an end and a status it yields to the observation itself, in whatever order they arrive. */
  #update(): OtlpSpan {
    const { attributes, rule } = this.#parts;
    const failure = rule.failure && attributes.text(rule.failure.key);
    const isFailed = failure !== undefined && rule.failure?.values.includes(failure) === true;
    const time = String(this.#time);
    return {
      ...this.#identity(this.#ownId(), this.#parentId),
      name: (rule.name === undefined ? undefined : attributes.text(rule.name)) ?? '',
      startTimeUnixNano: isFailed || rule.name !== undefined ? time : '0',
      ...(isFailed ? { endTimeUnixNano: time, status: { code: 2, message: failure } } : {}),
      ...this.#content(rule.kind),
    };
  }

  #identity(spanId: string, parentSpanId?: string): OtlpSpan {
    const { droppedAttributesCount } = this.#parts.record;
    return {
      traceId: this.#traceId,
      spanId,
      ...(parentSpanId === undefined ? {} : { parentSpanId }),
      droppedAttributesCount,
    };
  }

  get #rootId(): string {
    return hashedId(8, [this.#traceId, 'root']);
  }

  get #parentId(): string | undefined {
    const { spanId } = this.#parts.record;
    if (!this.#hasOwnTrace) return spanId;
    return this.#hasRoot ? this.#rootId : undefined;
  }

  #ownId(): string {
    const { attributes, rule } = this.#parts;
    const key = rule.key === undefined ? undefined : attributes.text(rule.key);
    const isCall = key !== undefined && rule.kind !== 'event';
    const seed = isCall ? ['call', rule.kind, key] : ['record', this.#seed()];
    return hashedId(8, [this.#traceId, ...seed]);
  }

  #times(): { start: bigint; end: bigint } {
    const { attributes } = this.#parts;
    const end = this.#time;
    const ms = attributes.read(DURATION_KEY, 'duration')?.doubleValue;
    if (ms === undefined) return { start: end, end };
    const start = end - nanosOf(Number(ms));
    if (start > 0n) return { start, end };
    attributes.ignore(DURATION_KEY, 'duration');
    return { start: end, end };
  }

  #status(): NonNullable<OtlpSpan['status']> {
    const { error } = this.#parts;
    return error === undefined ? { code: 1 } : { code: 2, message: error };
  }

  #content(kind: ObservationKind, attributes = this.#parts.attributes): OtlpSpan {
    const { rule, name, source, record } = this.#parts;
    for (const each of rule.attributes) attributes.map(each);
    if (name === INPUT_PARTS.event) addParts(attributes);
    if (rule.role === 'prompt') addPromptLength(attributes);
    const [type] = FAILURE_TYPE_KEYS;
    attributes.map({ to: 'error.type', from: [type], as: 'text' });
    this.#addOwner(attributes);
    const isOutsideOfTurns = source.turn !== undefined && this.#turn === undefined;
    if (isOutsideOfTurns && this.#hasOwnTrace) {
      attributes.set(TRACE_NAME_KEY, { stringValue: `${source.root} session` });
    }
    if (kind === 'generation' || (kind === 'agent' && !attributes.made('gen_ai.provider.name'))) {
      attributes.set('gen_ai.provider.name', { stringValue: source.provider });
    }
    setKind(attributes, kind);
    attributes.set('event.name', { stringValue: name });
    if (record.body !== undefined && record.body.stringValue !== name) {
      attributes.set('log.body', record.body);
    }
    return { attributes: attributes.list(source.prefix) };
  }

  /** The session and the user, if the client has other names for them. */
  #addOwner(attributes: EventAttributes): void {
    const { source } = this.#parts;
    if (this.#session !== undefined && source.session !== 'session.id') {
      attributes.set('session.id', { stringValue: this.#session });
    }
    if (attributes.has('user.id')) return;
    const user = source.users.map((key) => attributes.text(key)).find((text) => text);
    if (user !== undefined) attributes.set('user.id', { stringValue: user });
  }
}

/** The operation names its kind, and other readers know it; the rest is OpenInference's. */
const OPERATIONS: Partial<Record<ObservationKind, string>> = {
  agent: 'invoke_agent',
  generation: 'chat',
  tool: 'execute_tool',
};

export function setKind(attributes: EventAttributes, kind: ObservationKind): void {
  const operation = OPERATIONS[kind];
  if (operation === undefined) {
    attributes.set('openinference.span.kind', { stringValue: kind.toUpperCase() });
  } else attributes.set('gen_ai.operation.name', { stringValue: operation });
}

function timeOf(record: LogRecord, attributes: EventAttributes): bigint {
  if (record.time !== 0n) return record.time;
  const sent = attributes.text(TIMESTAMP_KEY);
  const instant = sent === undefined ? undefined : parseInstant(sent);
  if (instant !== undefined) {
    const nanos = unixNanosOf(instant);
    if (nanos > 0n && nanos <= MAX_NANOS) return nanos;
  }
  if (attributes.has(TIMESTAMP_KEY)) attributes.ignore(TIMESTAMP_KEY, 'time');
  return record.observedTime;
}

const MAX_NANOS = 2n ** 64n - 1n;
/** Longer durations give a start before 1970 in any case. */
const MAX_DURATION_MS = 2 ** 44;

function nanosOf(ms: number): bigint {
  return BigInt(Math.round(Math.min(ms, MAX_DURATION_MS) * 1000)) * 1000n;
}

/** Adds the parts of the input, each of which is a count. */
function addParts(attributes: EventAttributes): void {
  const { side, parts } = INPUT_PARTS;
  const own = attributes.made(side);
  if (own === undefined) return;
  const counts = parts.map((part) => Number(attributes.made(part)?.intValue ?? 0));
  const sum = counts.reduce((total, count) => total + count, Number(own.intValue));
  if (Number.isSafeInteger(sum)) attributes.set(side, { intValue: String(sum) });
}

/** The input of a client that keeps its prompts to itself. */
function addPromptLength(attributes: EventAttributes): void {
  if (attributes.made(PROMPT_INPUT) !== undefined) return;
  const length: OtlpValue | undefined = attributes.read(PROMPT_LENGTH_KEY, 'count');
  if (length === undefined) return;
  attributes.set(PROMPT_INPUT, {
    kvlistValue: { values: [{ key: PROMPT_LENGTH_KEY, value: length }] },
  });
}

/** An id in hex: the beginning of a hash, which is zero as rarely as a random one. */
export function hashedId(bytes: 8 | 16, parts: readonly string[]): string {
  return hash('sha256', JSON.stringify(parts), 'hex').slice(0, 2 * bytes);
}
