import { RE2JS } from 're2js';
import type { ObservationKind, ObservationStatus } from '../../src/model/observation.ts';
import type { Condition, FilterConfig } from './config.ts';

/** The facts of an observation that conditions read. A fact that the request does not state is null. */
export type Facts = {
  readonly name: string | null;
  readonly kind: ObservationKind | null;
  readonly status: ObservationStatus | null;
  readonly scope: string | null;
  /** The attribute's value as text; undefined if it is absent. */
  attribute(key: string): string | undefined;
};

type Test = (facts: Facts) => boolean;

/**
 * Compiles the configuration to a decision: true keeps the observation.
 *
 *   exclude matches ─▶ drop      update ─▶ keep      preset or include does not match ─▶ drop      else keep
 *
 * An update states neither name nor kind: the finish of an observation that started in an earlier request. Only
 * `exclude` can drop it, because its name and kind are unknown.
 */
export function decisionOf({ preset, include, exclude, mode, conditions }: FilterConfig): Test {
  const included = [...include, ...(mode === 'include' ? conditions : [])].map(testOf);
  const excluded = [...exclude, ...(mode === 'exclude' ? conditions : [])].map(testOf);
  return (facts) => {
    if (excluded.some((matches) => matches(facts))) return false;
    if (facts.name === null && facts.kind === null) return true;
    if (preset === 'llm_only' && !isOfLlm(facts)) return false;
    return included.length === 0 || included.some((matches) => matches(facts));
  };
}

function isOfLlm({ kind }: Facts): boolean {
  return kind !== null && kind !== 'span' && kind !== 'event';
}

/** The fields of a condition are joined by AND. */
function testOf(condition: Condition): Test {
  const { name, name_matches: pattern, kind, status, scope, attributes = {} } = condition;
  const tests: Test[] = [];
  if (kind !== undefined) tests.push((facts) => facts.kind !== null && kind.includes(facts.kind));
  if (status !== undefined) {
    tests.push((facts) => facts.status !== null && status.includes(facts.status));
  }
  if (name !== undefined) tests.push(textTest(name, (facts) => facts.name));
  if (pattern !== undefined) tests.push(patternTest(pattern, (facts) => facts.name));
  if (scope !== undefined) tests.push(textTest(scope, (facts) => facts.scope));
  for (const [key, wanted] of Object.entries(attributes)) {
    const read = (facts: Facts) => facts.attribute(key);
    if (typeof wanted === 'string') tests.push(textTest([wanted], read));
    else if ('matches' in wanted) tests.push(patternTest(wanted.matches, read));
    else tests.push((facts) => (read(facts) !== undefined) === wanted.present);
  }
  return (facts) => tests.every((matches) => matches(facts));
}

/** Equality, or a prefix for a text that ends with `*`. */
function textTest(
  wanted: readonly string[],
  read: (facts: Facts) => string | null | undefined,
): Test {
  const prefixes = wanted.filter((text) => text.endsWith('*')).map((text) => text.slice(0, -1));
  const texts = new Set(wanted.filter((text) => !text.endsWith('*')));
  return (facts) => {
    const value = read(facts);
    if (value === null || value === undefined) return false;
    return texts.has(value) || prefixes.some((prefix) => value.startsWith(prefix));
  };
}

/** Characters of a text that a pattern reads: one that is as long as a body takes up to half a microsecond for each. */
const MAX_PATTERN_TEXT = 16_384;

function patternTest(source: string, read: (facts: Facts) => string | null | undefined): Test {
  const pattern = RE2JS.compile(source);
  return (facts) => {
    const value = read(facts);
    return value !== null && value !== undefined && pattern.test(value.slice(0, MAX_PATTERN_TEXT));
  };
}
