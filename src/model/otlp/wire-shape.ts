import type { TextField } from '../texts.ts';

/** The schema of the export request in protobuf: the strings and nested messages of every message. */
export type WireMessage = {
  /** Fields of wire type 2 by number. Fields without an entry hold bytes or are unknown. */
  readonly fields: (WireField | undefined)[];
};

export type WireField =
  /** A string; undefined if the attribute's key decides its field. */
  | { readonly text: TextField | undefined; readonly message?: undefined }
  | { readonly message: WireMessage };

function message(fields: Readonly<Record<number, WireField | WireMessage>>): WireMessage {
  const byNumber: (WireField | undefined)[] = [];
  for (const [number, field] of Object.entries(fields)) {
    byNumber[Number(number)] = 'fields' in field ? { message: field } : field;
  }
  // An array without holes has faster look-ups.
  return { fields: Array.from(byNumber) };
}

const text = (field?: TextField): WireField => ({ text: field });

const ANY_VALUE: WireMessage = message({ 1: text() });
/** Its key, field 1, is no text. */
export const WIRE_KEY_VALUE = message({ 2: ANY_VALUE });
ANY_VALUE.fields[5] = { message: message({ 1: ANY_VALUE }) };
ANY_VALUE.fields[6] = { message: message({ 1: WIRE_KEY_VALUE }) };

export const WIRE_EVENT = message({ 2: text('events'), 3: WIRE_KEY_VALUE });
const LINK = message({ 3: text('attributes'), 4: WIRE_KEY_VALUE });
const STATUS = message({ 2: text('error') });

export const WIRE_SPAN = message({
  3: text('attributes'),
  5: text('name'),
  9: WIRE_KEY_VALUE,
  11: WIRE_EVENT,
  13: LINK,
  15: STATUS,
});

const SCOPE = message({ 1: text('attributes'), 2: text('attributes'), 3: WIRE_KEY_VALUE });
const SCOPE_SPANS = message({ 1: SCOPE, 2: WIRE_SPAN, 3: text('attributes') });
const RESOURCE = message({ 1: WIRE_KEY_VALUE });
const RESOURCE_SPANS = message({ 1: RESOURCE, 2: SCOPE_SPANS, 3: text('attributes') });

export const WIRE_REQUEST = message({ 1: RESOURCE_SPANS });
