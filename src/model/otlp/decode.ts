import type {
  OtlpEvent,
  OtlpKeyValue,
  OtlpLink,
  OtlpResource,
  OtlpScope,
  OtlpSpan,
  OtlpValue,
} from './span.ts';
import { WireReader } from './wire.ts';

/** Decodes scanned protobuf messages into OTLP's JSON form, with all known fields. */
export function decodeSpan(bytes: Buffer, start: number, end: number): OtlpSpan {
  const reader = new WireReader(bytes, start, end);
  const span: OtlpSpan = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (!readIdentity(span, tag, reader) && !readContent(span, tag, reader)) reader.skip();
  }
  return span;
}

function readIdentity(span: OtlpSpan, tag: number, reader: WireReader): boolean {
  switch (tag) {
    case 10:
      span.traceId = reader.hex();
      return true;
    case 18:
      span.spanId = reader.hex();
      return true;
    case 26:
      span.traceState = reader.text();
      return true;
    case 34:
      span.parentSpanId = reader.hex();
      return true;
    case 42:
      span.name = reader.text();
      return true;
    case 48:
      span.kind = reader.int32();
      return true;
    case 57:
      span.startTimeUnixNano = String(reader.fixed64());
      return true;
    case 65:
      span.endTimeUnixNano = String(reader.fixed64());
      return true;
    case 133:
      span.flags = reader.fixed32();
      return true;
    default:
      return false;
  }
}

function readContent(span: OtlpSpan, tag: number, reader: WireReader): boolean {
  switch (tag) {
    case 74:
      span.attributes ??= [];
      span.attributes.push(decodeKeyValue(reader.message()));
      return true;
    case 80:
      span.droppedAttributesCount = reader.uint32();
      return true;
    case 90:
      span.events ??= [];
      span.events.push(decodeEvent(reader.message()));
      return true;
    case 96:
      span.droppedEventsCount = reader.uint32();
      return true;
    case 106:
      span.links ??= [];
      span.links.push(decodeLink(reader.message()));
      return true;
    case 112:
      span.droppedLinksCount = reader.uint32();
      return true;
    case 122:
      span.status = decodeStatus(reader.message());
      return true;
    default:
      return false;
  }
}

function decodeStatus(reader: WireReader): NonNullable<OtlpSpan['status']> {
  const status: NonNullable<OtlpSpan['status']> = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 18) status.message = reader.text();
    else if (tag === 24) status.code = reader.int32();
    else reader.skip();
  }
  return status;
}

function decodeEvent(reader: WireReader): OtlpEvent {
  const event: OtlpEvent = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 9:
        event.timeUnixNano = String(reader.fixed64());
        break;
      case 18:
        event.name = reader.text();
        break;
      case 26:
        event.attributes ??= [];
        event.attributes.push(decodeKeyValue(reader.message()));
        break;
      case 32:
        event.droppedAttributesCount = reader.uint32();
        break;
      default:
        reader.skip();
    }
  }
  return event;
}

function decodeLink(reader: WireReader): OtlpLink {
  const link: OtlpLink = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 10:
        link.traceId = reader.hex();
        break;
      case 18:
        link.spanId = reader.hex();
        break;
      case 26:
        link.traceState = reader.text();
        break;
      case 34:
        link.attributes ??= [];
        link.attributes.push(decodeKeyValue(reader.message()));
        break;
      case 40:
        link.droppedAttributesCount = reader.uint32();
        break;
      case 53:
        link.flags = reader.fixed32();
        break;
      default:
        reader.skip();
    }
  }
  return link;
}

export function decodeResource(bytes: Buffer, start: number, end: number): OtlpResource {
  const reader = new WireReader(bytes, start, end);
  const resource: OtlpResource = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 10) {
      resource.attributes ??= [];
      resource.attributes.push(decodeKeyValue(reader.message()));
    } else if (tag === 16) {
      resource.droppedAttributesCount = reader.uint32();
    } else {
      reader.skip();
    }
  }
  return resource;
}

export function decodeScope(bytes: Buffer, start: number, end: number): OtlpScope {
  const reader = new WireReader(bytes, start, end);
  const scope: OtlpScope = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 10:
        scope.name = reader.text();
        break;
      case 18:
        scope.version = reader.text();
        break;
      case 26:
        scope.attributes ??= [];
        scope.attributes.push(decodeKeyValue(reader.message()));
        break;
      case 32:
        scope.droppedAttributesCount = reader.uint32();
        break;
      default:
        reader.skip();
    }
  }
  return scope;
}

/** Field 3 of a ResourceSpans or ScopeSpans message. */
export function decodeSchemaUrl(bytes: Buffer, start: number, end: number): string | undefined {
  const reader = new WireReader(bytes, start, end);
  let schemaUrl: string | undefined;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 26) schemaUrl = reader.text();
    else reader.skip();
  }
  return schemaUrl;
}

export function decodeKeyValue(reader: WireReader): OtlpKeyValue {
  const keyValue: OtlpKeyValue = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 10) keyValue.key = reader.key();
    else if (tag === 18) keyValue.value = decodeValue(reader.message());
    else reader.skip();
  }
  return keyValue;
}

/** The last field counts, as in every oneof. */
export function decodeValue(reader: WireReader): OtlpValue {
  let value: OtlpValue = {};
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    switch (tag) {
      case 10:
        value = { stringValue: reader.text() };
        break;
      case 16:
        value = { boolValue: reader.int64() !== 0n };
        break;
      case 24:
        value = { intValue: reader.int64Text() };
        break;
      case 33:
        value = { doubleValue: doubleForm(reader.double()) };
        break;
      case 42:
        value = { arrayValue: { values: decodeList(reader.message(), decodeValue) } };
        break;
      case 50:
        value = { kvlistValue: { values: decodeList(reader.message(), decodeKeyValue) } };
        break;
      case 58:
        value = { bytesValue: reader.base64() };
        break;
      default:
        reader.skip();
    }
  }
  return value;
}

function decodeList<Item>(reader: WireReader, decode: (reader: WireReader) => Item): Item[] {
  const items: Item[] = [];
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 10) items.push(decode(reader.message()));
    else reader.skip();
  }
  return items;
}

/** As in protobuf's JSON form: NaN and the infinities are strings. */
function doubleForm(value: number): number | string {
  if (Number.isFinite(value)) return value;
  if (Number.isNaN(value)) return 'NaN';
  return value > 0 ? 'Infinity' : '-Infinity';
}
