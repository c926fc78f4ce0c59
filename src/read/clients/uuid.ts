import { hash } from 'node:crypto';

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const OTLP_TRACE = /^[0-9a-f]{32}$/;
const OTLP_SPAN = /^([0-9a-f]{32}):([0-9a-f]{16})$/;
const NO_HALF = '0'.repeat(16);

/**
 * The id itself if it is a UUID, else a UUID (version 8) that is made of its hash: LangSmith's clients reject any other form of
 * an id, and projects and scores have ids of other forms.
 */
export function uuidOf(id: string): string {
  if (UUID.test(id)) return id;
  const hex = hash('sha256', id);
  const variant = ((Number.parseInt(hex[16] ?? '0', 16) & 3) | 8).toString(16);
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`];
  return [...parts, `${variant}${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-');
}

export function isOtlpTrace(id: string): boolean {
  return OTLP_TRACE.test(id);
}

/** The UUID of a trace: that of OTLP has the same digits. */
export function uuidOfTrace(id: string): string {
  return isOtlpTrace(id) ? hyphenated(id) : uuidOf(id);
}

/**
 * The UUID of an observation: that of a span has one half of the trace id, and the span id. The half is the first one, or
 * the second one if that is zero, as it is for tracers with ids of 64 bits.
 */
export function uuidOfRun(id: string): string {
  const [, trace = '', span = ''] = OTLP_SPAN.exec(id) ?? [];
  if (span === '') return uuidOf(id);
  return hyphenated(`${trace.startsWith(NO_HALF) ? trace.slice(16) : trace.slice(0, 16)}${span}`);
}

/** The halves of a UUID as hex digits; undefined for another text. */
export function halvesOfUuid(id: string): readonly [string, string] | undefined {
  if (!UUID.test(id)) return undefined;
  const hex = id.replaceAll('-', '').toLowerCase();
  return [hex.slice(0, 16), hex.slice(16)];
}

/** Whether a half of a UUID is empty: LangSmith makes the id of a run from that of a span by zeros before it. */
export function isNoHalf(half: string): boolean {
  return half === NO_HALF;
}

function hyphenated(hex: string): string {
  const [a, b, c] = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16)];
  return `${a}-${b}-${c}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
