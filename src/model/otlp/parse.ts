import type { OtlpResource, OtlpScope, OtlpSpan } from './span.ts';

/** Text of a scanned OTLP message in JSON. 64-bit integers that a JavaScript number cannot hold stay digits. */
export function parseJson(bytes: Buffer, start: number, end: number): unknown {
  const text = bytes.toString('utf8', start, end);
  // Digits in quotes are exact anyhow; this only decides whether the slower way is needed.
  if (!/[:[,\s]-?\d{16,}/.test(text)) return JSON.parse(text);
  return parseWithSource(text, (_key, value, context) =>
    typeof value === 'number' &&
    !Number.isSafeInteger(value) &&
    /^-?\d+$/.test(context?.source ?? '')
      ? context?.source
      : value,
  );
}

/** JSON.parse with access to a number's text, which the library's types do not know yet. */
const parseWithSource = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context?: { source?: string }) => unknown,
) => unknown;

export function parseSpan(bytes: Buffer, start: number, end: number): OtlpSpan {
  return parseJson(bytes, start, end) as OtlpSpan;
}

/** A range of nothing is an absent resource or scope. */
export function parseResource(bytes: Buffer, start: number, end: number): OtlpResource {
  return start === end ? {} : (parseJson(bytes, start, end) as OtlpResource);
}

export function parseScope(bytes: Buffer, start: number, end: number): OtlpScope {
  return start === end ? {} : (parseJson(bytes, start, end) as OtlpScope);
}
