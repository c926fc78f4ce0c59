import type { JsonForm } from '../attributes.ts';
import { checkJson } from '../json/scan.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';

/** An attribute with JSON text of deeper nesting is a plain string. */
const MAX_TEXT_DEPTH = 500;

/**
 * A value as JSON text. Integers of any size keep their digits, NaN and the infinities are strings, bytes are base64
 * strings, and a kvlist is an object with the last value of a repeated key.
 */
export function valueText(value: OtlpValue | null | undefined): string {
  if (value === undefined || value === null) return 'null';
  if (isSet(value.stringValue)) return JSON.stringify(value.stringValue);
  if (isSet(value.boolValue)) return value.boolValue ? 'true' : 'false';
  if (isSet(value.intValue)) return integerText(value.intValue);
  if (isSet(value.doubleValue)) return doubleText(value.doubleValue);
  if (isSet(value.arrayValue))
    return `[${(value.arrayValue.values ?? []).map(valueText).join(',')}]`;
  if (isSet(value.kvlistValue)) return objectText(value.kvlistValue.values);
  if (isSet(value.bytesValue)) return JSON.stringify(value.bytesValue);
  return 'null';
}

/** An attribute list as the text of a JSON object. */
export function objectText(attributes: readonly OtlpKeyValue[] | null | undefined): string {
  return membersText(entriesOf(attributes));
}

/** Keys with the JSON text of their values; the last value of a repeated key. */
export function entriesOf(
  attributes: readonly OtlpKeyValue[] | null | undefined,
): Map<string, string> {
  const entries = new Map<string, string>();
  for (const attribute of attributes ?? []) {
    entries.set(attribute.key ?? '', valueText(attribute.value));
  }
  return entries;
}

export function membersText(entries: ReadonlyMap<string, string>): string {
  let members = '';
  for (const [key, text] of entries) {
    members += `${members === '' ? '' : ','}${JSON.stringify(key)}:${text}`;
  }
  return `{${members}}`;
}

/** The value of the last attribute with this key as text: a string's content, otherwise JSON. */
export function attributeText(
  attributes: readonly OtlpKeyValue[] | null | undefined,
  key: string,
): string | undefined {
  return textOfValue(attributes?.findLast((attribute) => attribute.key === key)?.value);
}

/** A string's content, or any other value as JSON; undefined for a null. */
export function textOfValue(value: OtlpValue | null | undefined): string | undefined {
  return isNonNull(value) ? (value?.stringValue ?? valueText(value)) : undefined;
}

/**
 * An input or output as JSON text. A string that is a JSON object or array is taken as that JSON, unchanged; with
 * `values`, a string that is any JSON.
 */
export function contentText(value: OtlpValue | null | undefined, form?: JsonForm): string {
  const elements = form === 'elements' ? value?.arrayValue?.values : undefined;
  if (isSet(elements))
    return `[${elements.map((element) => contentText(element, 'values')).join(',')}]`;
  const text = value?.stringValue;
  if (isSet(text) && (form === 'values' || /^[ \t\r\n]*[{[]/.test(text)) && isJson(text))
    return text;
  return valueText(value);
}

function isJson(text: string): boolean {
  if (!text.isWellFormed()) return false;
  try {
    checkJson(Buffer.from(text), MAX_TEXT_DEPTH);
    return true;
  } catch {
    return false;
  }
}

/** The value is neither absent nor null nor an empty string. */
export function hasValue(value: OtlpValue | null | undefined): value is OtlpValue {
  return isNonNull(value) && value?.stringValue !== '';
}

/** The value is neither absent nor null. */
function isNonNull(value: OtlpValue | null | undefined): boolean {
  if (value === undefined || value === null) return false;
  return (
    isSet(value.stringValue) ||
    isSet(value.boolValue) ||
    isSet(value.intValue) ||
    isSet(value.doubleValue) ||
    isSet(value.arrayValue) ||
    isSet(value.kvlistValue) ||
    isSet(value.bytesValue)
  );
}

/** A string, number or boolean; undefined for any other value. */
export function scalarOf(
  value: OtlpValue | null | undefined,
): string | number | bigint | boolean | undefined {
  if (value === undefined || value === null) return undefined;
  if (isSet(value.stringValue)) return value.stringValue;
  if (isSet(value.boolValue)) return value.boolValue;
  if (isSet(value.intValue)) {
    if (typeof value.intValue === 'number') return value.intValue;
    const digits = integerText(value.intValue);
    const number = Number(digits);
    return Number.isSafeInteger(number) ? number : BigInt(digits);
  }
  if (isSet(value.doubleValue)) return Number(value.doubleValue);
  return undefined;
}

function integerText(value: string | number | bigint): string {
  // Removes leading zeros and the sign of `-0`, which JSON numbers do not have.
  return typeof value === 'string' ? String(BigInt(value)) : BigInt(value).toString();
}

function doubleText(value: number | string): string {
  const number = Number(value);
  if (Number.isFinite(number)) return JSON.stringify(number);
  return JSON.stringify(String(number));
}

function isSet<T>(value: T | null | undefined): value is T {
  return value !== undefined && value !== null;
}
