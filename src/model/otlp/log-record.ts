import type { OtlpIndex } from '../batch-index.ts';
import { EVENT_SOURCES, GENAI_PREFIX } from '../log-events.ts';
import { spanField } from './context.ts';
import { decodeKeyValue, decodeValue } from './decode.ts';
import { OtlpField } from './fields.ts';
import { parseJson } from './parse.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';
import { hasValue } from './value.ts';
import { WireReader } from './wire.ts';

/** A log record in OTLP's JSON form, into which both encodings are decoded. */
type OtlpLogRecord = {
  timeUnixNano?: string | number;
  observedTimeUnixNano?: string | number;
  body?: OtlpValue;
  attributes?: OtlpKeyValue[];
  droppedAttributesCount?: number;
  eventName?: string;
};

export type LogRecord = {
  /** The name of its event; undefined if it is none of LLM calls. */
  readonly event: string | undefined;
  /** Lower-case hex; undefined unless it is valid. */
  readonly traceId: string | undefined;
  readonly spanId: string | undefined;
  /** Nanoseconds since the epoch; 0 without one. */
  readonly time: bigint;
  readonly observedTime: bigint;
  readonly body: OtlpValue | undefined;
  /** The last value of each key, without empty ones. */
  readonly attributes: ReadonlyMap<string, OtlpValue>;
  readonly droppedAttributesCount: number;
};

/** A record of a scanned request; `scope` is the name of its instrumentation scope. */
export function logRecordAt(index: OtlpIndex, position: number, scope: string | null): LogRecord {
  const start = spanField(index, position, OtlpField.START);
  const end = spanField(index, position, OtlpField.END);
  const record =
    index.type === 'otlp_proto'
      ? decodeLogRecord(index.bytes, start, end)
      : (parseJson(index, start, end) as OtlpLogRecord);
  const attributes = new Map<string, OtlpValue>();
  for (const { key, value } of record.attributes ?? []) {
    if (hasValue(value)) attributes.set(key ?? '', value);
  }
  const body = hasValue(record.body) ? record.body : undefined;
  const traceId = idAt(index, spanField(index, position, OtlpField.TRACE_ID), 16);
  return {
    event: eventOf([attributes.get('event.name')?.stringValue, record.eventName], body, scope),
    traceId,
    spanId: idAt(index, spanField(index, position, OtlpField.SPAN_ID), 8),
    time: BigInt(record.timeUnixNano ?? 0),
    observedTime: BigInt(record.observedTimeUnixNano ?? 0),
    body,
    attributes,
    droppedAttributesCount: Number(record.droppedAttributesCount ?? 0),
  };
}

function decodeLogRecord(bytes: Buffer, start: number, end: number): OtlpLogRecord {
  const reader = new WireReader(bytes, start, end);
  const record: OtlpLogRecord = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 9:
        record.timeUnixNano = String(reader.fixed64());
        break;
      case 42:
        record.body = decodeValue(reader.message());
        break;
      case 50:
        record.attributes ??= [];
        record.attributes.push(decodeKeyValue(reader.message()));
        break;
      case 56:
        record.droppedAttributesCount = reader.uint32();
        break;
      case 89:
        record.observedTimeUnixNano = String(reader.fixed64());
        break;
      case 98:
        record.eventName = reader.text();
        break;
      default:
        reader.skip();
    }
  }
  return record;
}

/** `start`: the place of a valid id; 0 without one. */
function idAt({ type, bytes }: OtlpIndex, start: number, length: number): string | undefined {
  if (start === 0) return undefined;
  if (type === 'otlp_proto') return bytes.toString('hex', start, start + length);
  return bytes.toString('latin1', start, start + 2 * length).toLowerCase();
}

/** Longer names are no known events. */
const MAX_NAME = 256;

/**
 * Clients name an event in an attribute, in the record's field, or in its body. The field may have a place in the source in place of
 * the event's name, so the first known name counts.
 */
function eventOf(
  names: readonly (string | null | undefined)[],
  body: OtlpValue | undefined,
  scope: string | null,
): string | undefined {
  for (const name of [...names, body?.stringValue]) {
    if (typeof name !== 'string' || name.length > MAX_NAME) continue;
    if (PREFIXES.some((prefix) => name.startsWith(prefix))) return name;
  }
  const [short] = names;
  if (typeof short !== 'string' || short.length > MAX_NAME) return undefined;
  const source = EVENT_SOURCES.find((each) => each.scope !== undefined && each.scope === scope);
  return source && `${source.prefix}${short}`;
}

const PREFIXES = [GENAI_PREFIX, ...EVENT_SOURCES.map(({ prefix }) => prefix)];
