import { checkJson } from '../json/scan.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';

/** Nesting of a JSON text within an attribute up to which it is taken as JSON. */
const MAX_TEXT_DEPTH = 500;

/**
 * A value as JSON text: integers keep their digits whatever their size, NaN and the infinities are
 * strings, bytes base64 strings, a kvlist an object in which a repeated key has its last value.
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

/** Keys with the JSON text of their values; of a repeated key the last. */
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
  const members: string[] = [];
  for (const [key, text] of entries) members.push(`${JSON.stringify(key)}:${text}`);
  return `{${members.join(',')}}`;
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
  return isPresent(value) ? (value?.stringValue ?? valueText(value)) : undefined;
}

/**
 * An input or output: text that is a JSON object or array stands for that value, to the letter; other
 * text stays text.
 */
export function contentText(value: OtlpValue | null | undefined): string {
  const text = value?.stringValue;
  if (isSet(text) && isJsonContainer(text)) return text;
  return valueText(value);
}

function isJsonContainer(text: string): boolean {
  if (!/^[ \t\r\n]*[{[]/.test(text) || !text.isWellFormed()) return false;
  try {
    checkJson(Buffer.from(text), MAX_TEXT_DEPTH);
    return true;
  } catch {
    return false;
  }
}

/** Neither absent nor null, nor the empty string: an attribute that says something. */
export function hasValue(value: OtlpValue | null | undefined): boolean {
  return isPresent(value) && value?.stringValue !== '';
}

/** Neither absent nor null. */
export function isPresent(value: OtlpValue | null | undefined): boolean {
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

/** A value that is text, a number or a truth value as such; undefined for any other. */
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
  // Digits alone are a JSON number; `-0` and leading zeros are not how one is written.
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
