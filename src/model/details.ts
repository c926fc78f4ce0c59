import type { Attachment } from './attachments.ts';
import type { IgnoredValue } from './ignored.ts';
import { IgnoredValues, MAX_IGNORED } from './ignored.ts';
import { cutAt, PREVIEW_CHARACTERS } from './preview.ts';

/**
 * Facts of an observation beside its main fields. Absent members are unknown. Events win each member independently, as
 * they win the main fields.
 */
export type ObservationDetails = {
  /** The provider of the model, such as `openai`. */
  readonly provider?: string;
  readonly environment?: string;
  readonly release?: string;
  readonly tags?: readonly string[];
  readonly promptName?: string;
  readonly promptVersion?: string;
  readonly tool?: string;
  /** Milliseconds from the start to the first token. */
  readonly ttftMs?: number;
  readonly cost?: Cost;
  /** The instrumentation scope of a span. */
  readonly scope?: string;
  /** Bytes of the inputs: of their compact JSON, or of the text of the attribute that gives them. */
  readonly inputBytes?: number;
  readonly outputBytes?: number;
  /** The beginning of the inputs and outputs as text, of an observation without a parent. */
  readonly inputPreview?: string;
  readonly outputPreview?: string;
  /** The provider's id of the response. */
  readonly responseId?: string;
  /** The name of the trace, if a client names it apart from its root. */
  readonly traceName?: string;
  /** The values that gave no field, because they are malformed. */
  readonly ignored?: readonly IgnoredValue[];
  readonly attachments?: readonly Attachment[];
};

/** In 10⁻⁹ USD. */
export type Cost = {
  readonly input: number | null;
  readonly output: number | null;
  readonly total: number;
  /** Whether the client sent it, or the processor `cost` computed it. */
  readonly source: 'sent' | 'computed';
};

/** Stores keep positions in this list: append to it, never reorder it. */
export const DETAIL_NAMES = [
  'provider',
  'environment',
  'release',
  'tags',
  'promptName',
  'promptVersion',
  'tool',
  'ttftMs',
  'cost',
  'scope',
  'inputBytes',
  'outputBytes',
  'inputPreview',
  'outputPreview',
  'responseId',
  'traceName',
  'ignored',
  'attachments',
] as const satisfies readonly (keyof ObservationDetails)[];

/** Longer texts are cut at this many characters. */
export const MAX_DETAIL_LENGTH = 512;
/** Further tags are left out. */
export const MAX_TAGS = 32;

const NANOS_PER_USD = 1e9;

/** An amount in USD, as a number or as digits, in 10⁻⁹ USD; undefined if it is no amount. */
export function nanosOfUsd(value: unknown): number | undefined {
  if (typeof value !== 'number' && (typeof value !== 'string' || !DIGITS.test(value))) {
    return undefined;
  }
  const nanos = Math.round(Number(value) * NANOS_PER_USD);
  return Number.isSafeInteger(nanos) && nanos >= 0 ? nanos : undefined;
}

const DIGITS = /^\d{1,16}(?:\.\d{1,32})?(?:e[+-]?\d{1,3})?$/i;

/** The cost of parts that a client sent; without a total it is their sum. Undefined without any part. */
export function sentCost(parts: {
  readonly input?: number | undefined;
  readonly output?: number | undefined;
  readonly total?: number | undefined;
}): Cost | undefined {
  const { input, output, total } = parts;
  if (input === undefined && output === undefined && total === undefined) return undefined;
  return {
    input: input ?? null,
    output: output ?? null,
    total: total ?? (input ?? 0) + (output ?? 0),
    source: 'sent',
  };
}

/** Distinct tags without empty ones; undefined if there are none. */
export function tagsOf(values: Iterable<unknown>): readonly string[] | undefined {
  const tags = new Set<string>();
  for (const value of values) {
    if (tags.size === MAX_TAGS) break;
    const tag = typeof value === 'string' ? clipped(value.trim()) : undefined;
    if (tag !== undefined) tags.add(tag);
  }
  return tags.size === 0 ? undefined : [...tags];
}

/** The text within the length of a detail; undefined if it is absent or empty. */
export function clipped(text: string | null | undefined): string | undefined {
  if (text === null || text === undefined || text === '') return undefined;
  return cutAt(text, MAX_DETAIL_LENGTH);
}

/** Without the members that are undefined; null if no member is left. */
export function detailsOf(
  details: { readonly [Name in keyof ObservationDetails]: ObservationDetails[Name] | undefined },
): ObservationDetails | null {
  // Hot path, runs for every observation: reading members by name costs less than a loop over the names.
  const known: { -readonly [Name in keyof ObservationDetails]: ObservationDetails[Name] } = {};
  if (details.provider !== undefined) known.provider = details.provider;
  if (details.environment !== undefined) known.environment = details.environment;
  if (details.release !== undefined) known.release = details.release;
  if (details.tags !== undefined) known.tags = details.tags;
  if (details.promptName !== undefined) known.promptName = details.promptName;
  if (details.promptVersion !== undefined) known.promptVersion = details.promptVersion;
  if (details.tool !== undefined) known.tool = details.tool;
  if (details.ttftMs !== undefined) known.ttftMs = details.ttftMs;
  if (details.cost !== undefined) known.cost = details.cost;
  if (details.scope !== undefined) known.scope = details.scope;
  if (details.inputBytes !== undefined) known.inputBytes = details.inputBytes;
  if (details.outputBytes !== undefined) known.outputBytes = details.outputBytes;
  if (details.inputPreview !== undefined) known.inputPreview = details.inputPreview;
  if (details.outputPreview !== undefined) known.outputPreview = details.outputPreview;
  if (details.responseId !== undefined) known.responseId = details.responseId;
  if (details.traceName !== undefined) known.traceName = details.traceName;
  if (details.ignored !== undefined) known.ignored = details.ignored;
  if (details.attachments !== undefined) known.attachments = details.attachments;
  return isEmpty(known) ? null : known;
}

function isEmpty(details: ObservationDetails): boolean {
  for (const _name in details) return false;
  return true;
}

/** Milliseconds between two instants; undefined unless the second one is at or after the first one. */
export function millisecondsBetween(
  start: { readonly ms: number; readonly ns: number } | null,
  end: { readonly ms: number; readonly ns: number } | null | undefined,
): number | undefined {
  if (start === null || end === null || end === undefined) return undefined;
  const between = end.ms - start.ms + (end.ns - start.ns) / 1e6;
  return between >= 0 ? between : undefined;
}

/** The sound members of details that another program sent. */
export function checkedDetails(value: unknown): ObservationDetails | null {
  if (!isRecord(value)) return null;
  const text = (name: keyof ObservationDetails) => {
    const member = value[name];
    return typeof member === 'string' ? clipped(member) : undefined;
  };
  const preview = (name: 'inputPreview' | 'outputPreview') => {
    const beginning = text(name);
    return beginning === undefined ? undefined : cutAt(beginning, PREVIEW_CHARACTERS);
  };
  const { tags, ttftMs, inputBytes, outputBytes } = value;
  return detailsOf({
    provider: text('provider'),
    environment: text('environment'),
    release: text('release'),
    tags: Array.isArray(tags) ? tagsOf(tags) : undefined,
    promptName: text('promptName'),
    promptVersion: text('promptVersion'),
    tool: text('tool'),
    ttftMs: typeof ttftMs === 'number' && ttftMs >= 0 && ttftMs < Infinity ? ttftMs : undefined,
    cost: checkedCost(value.cost),
    scope: text('scope'),
    inputBytes: isCount(inputBytes) ? inputBytes : undefined,
    outputBytes: isCount(outputBytes) ? outputBytes : undefined,
    inputPreview: preview('inputPreview'),
    outputPreview: preview('outputPreview'),
    responseId: text('responseId'),
    traceName: text('traceName'),
    ignored: withoutAttachments(value.attachments, checkedIgnored(value.ignored)),
  });
}

/** Another program sends what it knows of attachments, and not their bytes. */
function withoutAttachments(
  attachments: unknown,
  ignored: readonly IgnoredValue[] | undefined,
): readonly IgnoredValue[] | undefined {
  if (!Array.isArray(attachments) || attachments.length === 0) return ignored;
  const noted = new IgnoredValues(ignored);
  noted.add('attachments', 'attachmentHop');
  return noted.list;
}

function checkedIgnored(value: unknown): readonly IgnoredValue[] | undefined {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_IGNORED) return undefined;
  const isSound = value.every(
    (one: unknown) => isRecord(one) && isShortText(one.path) && isShortText(one.reason),
  );
  return isSound ? value.map(({ path, reason }: IgnoredValue) => ({ path, reason })) : undefined;
}

function isShortText(value: unknown): boolean {
  return typeof value === 'string' && value.length <= MAX_DETAIL_LENGTH;
}

function checkedCost(value: unknown): Cost | undefined {
  if (!isRecord(value)) return undefined;
  const { input, output, total, source } = value;
  if (source !== 'sent' && source !== 'computed') return undefined;
  if (!isCount(total) || ![input, output].every((part) => part === null || isCount(part))) {
    return undefined;
  }
  return {
    input: isCount(input) ? input : null,
    output: isCount(output) ? output : null,
    total,
    source,
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
