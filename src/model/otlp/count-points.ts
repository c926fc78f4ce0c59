/** The number of data points in an ExportMetricsServiceRequest, for the client that sent it. */

/** `resource_metrics`, `scope_metrics`, `metrics`. */
const PATH = [1, 2, 2] as const;
/** `gauge`, `sum`, `histogram`, `exponential_histogram`, `summary`: each has its points in field 1. */
const DATA: ReadonlySet<number> = new Set([5, 7, 9, 10, 11]);
const POINTS = 1;

/** Undefined if the bytes are no protobuf message. */
export function pointsInProto(body: Buffer): number | undefined {
  return countAt(body, 0, body.length, 0);
}

function countAt(body: Buffer, start: number, end: number, level: number): number | undefined {
  let count = 0;
  let at = start;
  while (at < end) {
    const tag = varintAt(body, at, end);
    if (tag === undefined) return undefined;
    const field = Math.floor(tag.value / 8);
    const content = contentAt(body, tag.end, end, tag.value & 7);
    if (content === undefined) return undefined;
    const { start: from, end: to } = content;
    at = to;
    if ((tag.value & 7) !== 2) continue;
    if (level === PATH.length + 1) {
      if (field === POINTS) count++;
      continue;
    }
    const isOnPath = level < PATH.length ? field === PATH[level] : DATA.has(field);
    const inside = isOnPath ? countAt(body, from, to, level + 1) : 0;
    if (inside === undefined) return undefined;
    count += inside;
  }
  return count;
}

type Range = { readonly start: number; readonly end: number };

/** The content of a field. Undefined if it is cut, or for groups, which OTLP does not have. */
function contentAt(body: Buffer, at: number, end: number, wireType: number): Range | undefined {
  switch (wireType) {
    case 0: {
      const value = varintAt(body, at, end);
      return value && { start: at, end: value.end };
    }
    case 1:
      return at + 8 <= end ? { start: at, end: at + 8 } : undefined;
    case 2: {
      const length = varintAt(body, at, end);
      if (length === undefined || length.end + length.value > end) return undefined;
      return { start: length.end, end: length.end + length.value };
    }
    case 5:
      return at + 4 <= end ? { start: at, end: at + 4 } : undefined;
    default:
      return undefined;
  }
}

function varintAt(
  body: Buffer,
  start: number,
  end: number,
): { readonly value: number; readonly end: number } | undefined {
  let value = 0;
  let scale = 1;
  for (let at = start; at < Math.min(end, start + 10); at++) {
    const byte = body[at] ?? 0;
    value += (byte & 127) * scale;
    if (byte < 128) return { value, end: at + 1 };
    scale *= 128;
  }
  return undefined;
}

/** The names of PATH and DATA in OTLP's JSON. */
const PATH_NAMES = ['resourceMetrics', 'scopeMetrics', 'metrics'] as const;
const DATA_NAMES = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'] as const;

/** Undefined if the bytes are no JSON object. */
export function pointsInJson(body: Buffer): number | undefined {
  let root: unknown;
  try {
    root = JSON.parse(body.toString());
  } catch {
    return undefined;
  }
  if (typeof root !== 'object' || root === null) return undefined;
  return pointsWithin(root, 0);
}

function pointsWithin(value: unknown, level: number): number {
  const name = PATH_NAMES[level];
  if (name === undefined) return pointsOf(value);
  let count = 0;
  for (const each of listIn(value, name)) count += pointsWithin(each, level + 1);
  return count;
}

function pointsOf(metric: unknown): number {
  let count = 0;
  for (const name of DATA_NAMES) count += listIn(memberOf(metric, name), 'dataPoints').length;
  return count;
}

function listIn(value: unknown, name: string): readonly unknown[] {
  const found = memberOf(value, name);
  return Array.isArray(found) ? found : NONE;
}

const NONE: readonly unknown[] = [];

/** Parsed JSON has only own members of the names of OTLP: no object inherits one. */
function memberOf(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return (value as Readonly<Record<string, unknown>>)[name];
}
