import type { TextField } from '../texts.ts';

/** The export request in protobuf, as data: the strings and nested messages of every message. */
export type WireMessage = {
  /** By field number; every one has wire type 2. Fields without an entry hold numbers, bytes or are unknown. */
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
  // Without holes, a look-up stays a plain array access.
  return { fields: Array.from(byNumber) };
}

const text = (field?: TextField): WireField => ({ text: field });

export const ANY_VALUE: WireMessage = message({ 1: text() });
/** Its key, field 1, is no text of its own. */
export const KEY_VALUE = message({ 2: ANY_VALUE });
ANY_VALUE.fields[5] = { message: message({ 1: ANY_VALUE }) };
ANY_VALUE.fields[6] = { message: message({ 1: KEY_VALUE }) };

export const EVENT = message({ 2: text('events'), 3: KEY_VALUE });
const LINK = message({ 3: text('attributes'), 4: KEY_VALUE });
const STATUS = message({ 2: text('error') });

export const SPAN = message({
  3: text('attributes'),
  5: text('name'),
  9: KEY_VALUE,
  11: EVENT,
  13: LINK,
  15: STATUS,
});

const SCOPE = message({ 1: text('attributes'), 2: text('attributes'), 3: KEY_VALUE });
const SCOPE_SPANS = message({ 1: SCOPE, 2: SPAN, 3: text('attributes') });
const RESOURCE = message({ 1: KEY_VALUE });
const RESOURCE_SPANS = message({ 1: RESOURCE, 2: SCOPE_SPANS, 3: text('attributes') });

export const REQUEST = message({ 1: RESOURCE_SPANS });
