import type { Instant, Observation } from '../../src/model/observation.ts';
import type { FieldTerm, NumberRange, Query, QueryTerm, TextValue } from '../../src/query/query.ts';
import type { StoredTrace } from '../../src/store/store.ts';

/** A trace as it is read, and the observations that were written. */
export type KnownTrace = {
  readonly trace: StoredTrace;
  readonly observations: readonly Observation[];
  /** The time that orders listings. */
  readonly at: Instant;
};

/** Whether a trace matches a query, without SQL. */
export function matches({ terms }: Query, known: KnownTrace): boolean {
  return terms.every((term) => holds(term, known) !== term.negated);
}

function holds(term: QueryTerm, known: KnownTrace): boolean {
  switch (term.type) {
    case 'text':
      return hasText(term.text, known);
    case 'has':
      return term.field === 'error' ? known.trace.errorCount > 0 : isPresent(term, known);
    case 'values':
      return textsOf(term, known).some((text) => term.values.some((value) => equals(text, value)));
    case 'ranges': {
      const number = numberOf(term, known);
      return number !== null && term.ranges.some((range) => isWithin(number, range));
    }
    case 'times':
      return term.ranges.some(
        ({ from, to }) =>
          (from === null || !isBefore(known.at, from)) && (to === null || isBefore(known.at, to)),
      );
  }
}

function isPresent(term: FieldTerm, known: KnownTrace): boolean {
  if (term.field === 'start') return known.trace.startTime !== null;
  if (term.field === 'custom' && term.key === null) {
    return Object.keys(known.trace.customFields).length > 0;
  }
  if (term.field === 'score' && term.key === null) {
    return Object.keys(known.trace.scores).length > 0;
  }
  return textsOf(term, known).length > 0 || numberOf(term, known) !== null;
}

function isBefore(a: Instant, b: Instant): boolean {
  return a.ms < b.ms || (a.ms === b.ms && a.ns < b.ns);
}

function equals(text: string, value: TextValue): boolean {
  return value.isPrefix ? text.startsWith(value.text) : text === value.text;
}

function isWithin(number: number, { min, max, isAboveMin, isBelowMax }: NumberRange): boolean {
  if (min !== null && (isAboveMin ? number <= min : number < min)) return false;
  return max === null || (isBelowMax ? number < max : number <= max);
}

function hasText(text: string, { trace, observations }: KnownTrace): boolean {
  const contains = (one: string | null | undefined): boolean =>
    one !== null && one !== undefined && lower(one).includes(lower(text));
  return (
    trace.id.startsWith(text) ||
    contains(trace.name) ||
    observations.some(
      ({ id, name, model, error, customFields }) =>
        [name, model, error?.message].some(contains) ||
        Object.entries(customFields ?? {})
          .flat()
          .some(contains) ||
        id.startsWith(text) ||
        id.slice(trace.id.length).startsWith(`:${text}`),
    )
  );
}

/** Stores ignore the case of ASCII letters only. */
function lower(text: string): string {
  return text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function textsOf({ field, key }: FieldTerm, { trace, observations }: KnownTrace): string[] {
  const all = (of: (one: Observation) => string | null | undefined) => texts(observations.map(of));
  switch (field) {
    case 'id':
      return [trace.id];
    case 'name':
      return texts([trace.name]);
    case 'status':
      return texts([trace.status]);
    case 'state':
      return [trace.state];
    case 'session':
      return texts([trace.sessionId]);
    case 'user':
      return texts([trace.userId]);
    case 'source':
      return [trace.source];
    case 'key':
      return texts([trace.keyId]);
    case 'environment':
      return texts([trace.environment]);
    case 'release':
      return texts([trace.release]);
    case 'tag':
      return [...trace.tags];
    case 'score': {
      const value = trace.scores[key ?? ''];
      return value === undefined || typeof value === 'number' ? [] : [String(value)];
    }
    case 'custom':
      return texts([trace.customFields[key ?? '']]);
    case 'span':
      return all(({ name }) => name);
    case 'kind':
      return all(({ kind }) => kind);
    case 'model':
      return all(({ model }) => model);
    case 'provider':
      return all(({ details }) => details?.provider);
    case 'prompt':
      return all(({ details }) => details?.promptName);
    case 'error':
      return all(({ error }) => error?.type);
    case 'tool':
      return all(({ details, kind, name }) => details?.tool ?? (kind === 'tool' ? name : null));
    default:
      return [];
  }
}

function texts(values: readonly (string | null | undefined)[]): string[] {
  return values.filter((value) => value !== null && value !== undefined);
}

function numberOf({ field, key }: FieldTerm, { trace }: KnownTrace): number | null {
  const usage = trace.usage ?? {};
  switch (field) {
    case 'latency':
      return trace.latencyMs;
    case 'ttft':
      return trace.ttftMs;
    case 'cost':
      return trace.cost === null ? null : trace.cost.total / 1e9;
    case 'tokens':
      return usage.total_tokens ?? null;
    case 'input_tokens':
      return usage.input_tokens ?? null;
    case 'output_tokens':
      return usage.output_tokens ?? null;
    case 'observations':
      return trace.observationCount;
    case 'score': {
      const value = trace.scores[key ?? ''];
      return typeof value === 'number' ? value : null;
    }
    default:
      return null;
  }
}
