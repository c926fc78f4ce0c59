import { compilePattern, type KeyTable } from '../json/pattern.ts';
import type { TextField } from '../texts.ts';

/** The schema of the export request in OTLP's JSON form: the type of every known field of every message. */

export type ScalarType =
  | 'string'
  | 'bytes'
  | 'bool'
  | 'int64'
  | 'uint64'
  | 'uint32'
  | 'double'
  | 'enum';

/** The fields that the scanner notes. */
export type Note =
  | 'resource'
  | 'scope'
  | 'trace_id'
  | 'span_id'
  | 'parent_id'
  | 'attributes'
  | 'events'
  | 'links'
  | 'key';

export type Field = {
  readonly type: ScalarType | Message;
  /** An array of messages of this type. */
  readonly list: boolean;
  readonly note: Note | undefined;
  /** The text field of a string; `value` if the attribute's key decides it; undefined if it is no text. */
  readonly text: TextField | 'value' | undefined;
};

export type Message = {
  readonly name: 'request' | 'resource_spans' | 'scope_spans' | 'span' | 'list' | 'other';
  readonly fields: Map<string, Field>;
  keys: MessageKeys | undefined;
};

type MessageKeys = {
  readonly table: KeyTable;
  /** By the slots of the keys. */
  readonly fields: readonly Field[];
};

/** The keys of a message as bytes. They are compiled at their first use, when all messages have their fields. */
export function messageKeysOf(message: Message): MessageKeys {
  message.keys ??= {
    table: compilePattern([...message.fields.keys()], []).root,
    fields: [...message.fields.values()],
  };
  return message.keys;
}

function one(type: ScalarType | Message, note?: Note): Field {
  return { type, list: false, note, text: undefined };
}

function text(field: TextField | 'value', note?: Note): Field {
  return { type: 'string', list: false, note, text: field };
}

function list(type: Message, note?: Note): Field {
  return { type, list: true, note, text: undefined };
}

function message(name: Message['name'], fields: Record<string, Field>): Message {
  return { name, fields: new Map(Object.entries(fields)), keys: undefined };
}

export const VALUE = message('other', {
  stringValue: text('value'),
  boolValue: one('bool'),
  intValue: one('int64'),
  doubleValue: one('double'),
  bytesValue: one('bytes'),
});
export const KEY_VALUE = message('other', { key: one('string', 'key'), value: one(VALUE) });
VALUE.fields.set('arrayValue', one(message('list', { values: list(VALUE) })));
VALUE.fields.set('kvlistValue', one(message('list', { values: list(KEY_VALUE) })));

export const EVENT = message('other', {
  timeUnixNano: one('uint64'),
  name: text('events'),
  attributes: list(KEY_VALUE),
  droppedAttributesCount: one('uint32'),
});

const LINK = message('other', {
  traceId: text('fixed'),
  spanId: text('fixed'),
  traceState: text('attributes'),
  attributes: list(KEY_VALUE),
  droppedAttributesCount: one('uint32'),
  flags: one('uint32'),
});

export const SPAN = message('span', {
  traceId: text('fixed', 'trace_id'),
  spanId: text('fixed', 'span_id'),
  traceState: text('attributes'),
  parentSpanId: text('fixed', 'parent_id'),
  flags: one('uint32'),
  name: text('name'),
  kind: one('enum'),
  startTimeUnixNano: one('uint64'),
  endTimeUnixNano: one('uint64'),
  attributes: list(KEY_VALUE, 'attributes'),
  droppedAttributesCount: one('uint32'),
  events: list(EVENT, 'events'),
  droppedEventsCount: one('uint32'),
  links: list(LINK, 'links'),
  droppedLinksCount: one('uint32'),
  status: one(message('other', { message: text('error'), code: one('enum') })),
});

/** The keys of a span, whose slots are the places in `SPAN_FIELDS`. */
export const SPAN_KEYS = compilePattern([...SPAN.fields.keys()], []).root;
export const SPAN_FIELDS: readonly Field[] = [...SPAN.fields.values()];

const SCOPE = message('other', {
  name: text('attributes'),
  version: text('attributes'),
  attributes: list(KEY_VALUE),
  droppedAttributesCount: one('uint32'),
});

const SCOPE_SPANS = message('scope_spans', {
  scope: one(SCOPE, 'scope'),
  spans: list(SPAN),
  schemaUrl: text('attributes'),
});

const RESOURCE = message('other', {
  attributes: list(KEY_VALUE),
  droppedAttributesCount: one('uint32'),
});

const RESOURCE_SPANS = message('resource_spans', {
  resource: one(RESOURCE, 'resource'),
  scopeSpans: list(SCOPE_SPANS),
  schemaUrl: text('attributes'),
});

export const REQUEST = message('request', { resourceSpans: list(RESOURCE_SPANS) });

/** Log records are items as spans are. */
const LOG_RECORD = message('span', {
  timeUnixNano: one('uint64'),
  observedTimeUnixNano: one('uint64'),
  severityNumber: one('enum'),
  severityText: one('string'),
  body: one(VALUE),
  attributes: list(KEY_VALUE, 'attributes'),
  droppedAttributesCount: one('uint32'),
  flags: one('uint32'),
  traceId: one('string', 'trace_id'),
  spanId: one('string', 'span_id'),
  eventName: one('string'),
});

export const LOGS_REQUEST = message('request', {
  resourceLogs: list(
    message('resource_spans', {
      resource: one(RESOURCE, 'resource'),
      scopeLogs: list(
        message('scope_spans', {
          scope: one(SCOPE, 'scope'),
          logRecords: list(LOG_RECORD),
          schemaUrl: one('string'),
        }),
      ),
      schemaUrl: one('string'),
    }),
  ),
});

/** The JSON text, quotes included, is a value of the type. */
export function isScalar(type: ScalarType, text: string): boolean {
  const quoted = text.startsWith('"');
  switch (type) {
    case 'string':
    case 'bytes':
      return quoted;
    case 'bool':
      return text === 'true' || text === 'false';
    case 'int64':
      return isInteger(text, -(2n ** 63n), 2n ** 63n - 1n);
    case 'uint64':
      return isInteger(text, 0n, 2n ** 64n - 1n);
    case 'uint32':
      return isInteger(text, 0n, 2n ** 32n - 1n);
    case 'double':
      return quoted ? DOUBLES.test(text) : isNumber(text);
    case 'enum':
      return quoted || isInteger(text, -(2n ** 31n), 2n ** 31n - 1n);
  }
}

const DOUBLES = /^"(?:NaN|-?Infinity|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)"$/;

/** Decimal digits, or a number with an integral value. Longer texts are refused before parsing. */
function isInteger(text: string, min: bigint, max: bigint): boolean {
  const digits = text.startsWith('"') ? text.slice(1, -1) : text;
  if (digits.length > 32) return false;
  if (/^-?\d+$/.test(digits)) {
    const value = BigInt(digits);
    return value >= min && value <= max;
  }
  const value = isNumber(digits) ? Number(digits) : Number.NaN;
  return Number.isSafeInteger(value) && value >= min && value <= max && !text.startsWith('"');
}

function isNumber(text: string): boolean {
  return /^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$/.test(text);
}
