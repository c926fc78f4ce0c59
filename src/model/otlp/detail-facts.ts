import type { TimeToFirstToken } from '../amount-conventions.ts';
import { COST_NAMES, UNPRICED_AS_ZERO } from '../amount-conventions.ts';
import type { CostPart, DetailRule, DetailText } from '../detail-attributes.ts';
import type { ObservationDetails } from '../details.ts';
import {
  clipped,
  detailsOf,
  millisecondsBetween,
  nanosOfUsd,
  sentCost,
  tagsOf,
} from '../details.ts';
import type { IgnoredValue } from '../ignored.ts';
import { parseInstant } from '../instant.ts';
import { decodeCheckedText } from '../json/checked.ts';
import type { Instant } from '../observation.ts';
import { MAX_OBJECT_TEXT, membersOfValue, type NoteIgnored, unquoted } from './objects.ts';
import type { OtlpValue } from './span.ts';
import { scalarOf } from './value.ts';

/** A value with the rank of its attribute: the lowest rank wins, the last value of a rank counts. */
type Ranked<T> = { readonly rank: number; readonly value: T };

/** A value of one of several names. A span has few: a list with one value a name costs less than a map. */
type Named<Name, T> = Ranked<T> & { readonly name: Name };

/** Amounts in a JSON object have a lower precedence than amounts with their own attributes. */
const OBJECT_RANK = 1000;

/** The facts of a span, beside its attributes, that its details depend on. */
type SpanMeasures = {
  readonly start: Instant | null;
  readonly end: Instant | null;
  readonly scope: string | null;
  /** OpenLIT names the tools that a model asks for, which the model call is none of. */
  readonly isModelCall: boolean;
  /** The provider that no attribute of its own names. */
  readonly provider: string | undefined;
  readonly inputBytes: number | undefined;
  readonly outputBytes: number | undefined;
  readonly ignored: readonly IgnoredValue[] | undefined;
};

/** The details of one span or resource, collected from its attributes. */
export class DetailFacts {
  #texts: Named<DetailText, string>[] | undefined = undefined;
  #costs: Named<CostPart, number>[] | undefined = undefined;
  #tags: Ranked<readonly string[]> | undefined = undefined;
  #ttft: Ranked<{ readonly amount: number; readonly of: TimeToFirstToken }> | undefined = undefined;
  /** The earliest time of an event that marks a token. */
  #firstToken: Instant | undefined = undefined;

  take(rule: DetailRule, value: OtlpValue | undefined, note: NoteIgnored): void {
    switch (rule.role) {
      case 'detail':
        this.#takeText(rule.detail, rule.rank, scalarOf(value), note);
        break;
      case 'tags': {
        const sent = tagsIn(value);
        if (sent === undefined || !sent.every(isTextOrAbsent)) note('tags');
        const tags = tagsOf(sent ?? []);
        if (tags !== undefined) this.#tags = better(this.#tags, { rank: rule.rank, value: tags });
        break;
      }
      case 'ttft': {
        const amount = Number(scalarOf(value));
        const isDuration = amount >= 0 && Number.isFinite(amount * rule.of.unitMs);
        if (!isDuration) note('duration');
        else this.#ttft = better(this.#ttft, { rank: rule.rank, value: { amount, of: rule.of } });
        break;
      }
      case 'cost':
        if (!this.#takeCost(rule.part, rule.rank, scalarOf(value))) note('amount');
        break;
      case 'costs':
        this.#takeCosts(rule, value, note);
        break;
    }
  }

  #takeText(detail: DetailText, rank: number, scalar: unknown, note: NoteIgnored): void {
    const text = clipped(scalar === undefined ? undefined : unquoted(String(scalar)));
    if (text === undefined) return;
    if (detail === 'firstToken' && parseInstant(text) === undefined) note('time');
    else this.#texts = offered(this.#texts, { name: detail, rank, value: text });
  }

  /** False if the value is no amount. */
  #takeCost(part: CostPart, rank: number, amount: unknown): boolean {
    const value = nanosOfUsd(amount);
    if (value !== undefined) this.#costs = offered(this.#costs, { name: part, rank, value });
    return value !== undefined;
  }

  #takeCosts(
    { rank, isSummed }: DetailRule & { role: 'costs' },
    value: OtlpValue | undefined,
    note: NoteIgnored,
  ): void {
    const members = membersOfValue(value);
    if (members === undefined) note('amounts');
    let sum = 0;
    let hasTotal = false;
    for (const [name, amount] of members ?? []) {
      const part = COST_PARTS.get(name);
      if (amount === null) continue;
      sum += nanosOfUsd(amount) ?? 0;
      if (part === undefined) continue;
      const isTaken = this.#takeCost(part, OBJECT_RANK + rank, amount);
      if (!isTaken) note('amount', name);
      hasTotal ||= isTaken && part === 'total';
    }
    const isTotal = isSummed && !hasTotal && sum > 0 && Number.isSafeInteger(sum);
    if (isTotal) {
      const total = { name: 'total', rank: OBJECT_RANK + rank, value: sum } as const;
      this.#costs = offered(this.#costs, total);
    }
  }

  takeToken(time: Instant): void {
    const first = this.#firstToken;
    if (first === undefined || time.ms < first.ms || (time.ms === first.ms && time.ns < first.ns)) {
      this.#firstToken = time;
    }
  }

  ownText(name: DetailText): string | undefined {
    return valueNamed(this.#texts, name);
  }

  get ownTags(): readonly string[] | undefined {
    return this.#tags?.value;
  }

  /** A text of the span, else of its resource. */
  #text(name: DetailText, resource: DetailFacts | undefined): string | undefined {
    return this.ownText(name) ?? resource?.ownText(name);
  }

  /** `resource` has the details of the span's resource. */
  details(
    { start, end, scope, isModelCall, provider, inputBytes, outputBytes, ignored }: SpanMeasures,
    resource: DetailFacts | undefined,
  ): ObservationDetails | null {
    return detailsOf({
      provider: this.ownText('provider') ?? clipped(provider),
      environment: this.#text('environment', resource),
      release: this.#text('release', resource),
      tags: this.ownTags ?? resource?.ownTags,
      promptName: this.ownText('promptName'),
      promptVersion: this.ownText('promptVersion'),
      tool: isModelCall ? undefined : this.ownText('tool'),
      ttftMs: this.#sentTtftMs(scope) ?? this.#untilFirstToken(start, end),
      cost: sentCost({
        input: valueNamed(this.#costs, 'input'),
        output: valueNamed(this.#costs, 'output'),
        total: this.#total(scope),
      }),
      scope: clipped(scope),
      inputBytes,
      outputBytes,
      responseId: this.ownText('responseId'),
      traceName: this.ownText('traceName'),
      ignored,
    });
  }

  #total(scope: string | null): number | undefined {
    const total = valueNamed(this.#costs, 'total');
    const isUnknown = total === 0 && UNPRICED_AS_ZERO.some((begin) => scope?.startsWith(begin));
    return isUnknown ? undefined : total;
  }

  #sentTtftMs(scope: string | null): number | undefined {
    if (this.#ttft === undefined) return undefined;
    const { amount, of } = this.#ttft.value;
    return amount * (of.except?.scope === scope ? of.except.unitMs : of.unitMs);
  }

  #untilFirstToken(start: Instant | null, end: Instant | null): number | undefined {
    const text = this.ownText('firstToken');
    const sent = text === undefined ? undefined : parseInstant(text);
    const isKnown = sent !== undefined && !this.#isWholeAnswer(sent, end);
    return millisecondsBetween(start, isKnown ? sent : this.#firstToken);
  }

  /** The time of a call that is no stream: LiteLLM sends the end of such a call as the time of its first token. */
  #isWholeAnswer(first: Instant, end: Instant | null): boolean {
    // Python's text of a boolean begins with a capital.
    const streaming = this.ownText('streaming')?.toLowerCase();
    if (streaming === 'true' || streaming === 'false') return streaming === 'false';
    if (end === null) return false;
    // The end is a number of nanoseconds that a double has rounded, and the other time has microseconds.
    return Math.abs(end.ms - first.ms + (end.ns - first.ns) / 1e6) < 0.001;
  }
}

const COST_PARTS: ReadonlyMap<string, CostPart> = new Map(Object.entries(COST_NAMES));

/** The list with the value, unless it has a better one of the name. */
function offered<Name, T>(
  list: Named<Name, T>[] | undefined,
  value: Named<Name, T>,
): Named<Name, T>[] {
  if (list === undefined) return [value];
  for (let at = 0; at < list.length; at++) {
    const found = list[at] as Named<Name, T>;
    if (found.name !== value.name) continue;
    if (value.rank <= found.rank) list[at] = value;
    return list;
  }
  list.push(value);
  return list;
}

function valueNamed<Name, T>(
  list: readonly Named<Name, T>[] | undefined,
  name: Name,
): T | undefined {
  if (list === undefined) return undefined;
  for (const found of list) if (found.name === name) return found.value;
  return undefined;
}

function better<T>(found: Ranked<T> | undefined, value: Ranked<T>): Ranked<T> {
  return found === undefined || value.rank <= found.rank ? value : found;
}

function isTextOrAbsent(value: unknown): boolean {
  return typeof value === 'string' || value === null || value === undefined;
}

/** Tags as an array, as a JSON array in a text, or as a text with commas; undefined for any other value. */
function tagsIn(value: OtlpValue | undefined): readonly unknown[] | undefined {
  const list = value?.arrayValue?.values;
  if (list !== undefined && list !== null) return list.map((entry) => scalarOf(entry));
  const text = value?.stringValue;
  if (typeof text !== 'string' || text.length > MAX_OBJECT_TEXT) return undefined;
  if (!text.trimStart().startsWith('[')) return text.split(',');
  const tags = decodeCheckedText(text);
  return Array.isArray(tags) ? tags : undefined;
}
