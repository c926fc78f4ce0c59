import { COST_NAMES } from './amount-conventions.ts';
import type { TokenUsage } from './observation.ts';
import {
  CACHE_WRITE_TIERS,
  CACHED_PARTS,
  NESTED_COUNTS,
  PARTS_APART,
  TOKEN_KINDS,
  TOOL_RESULTS,
} from './token-conventions.ts';

export type TokenKind = keyof typeof TOKEN_KINDS;

/** A kind with the rank of its spelling: the kind's own name is 0 and precedes the others. */
export type NamedKind = { readonly kind: TokenKind; readonly rank: number };

const KINDS_BY_NAME: ReadonlyMap<string, NamedKind> = new Map(
  (Object.keys(TOKEN_KINDS) as TokenKind[]).flatMap((kind) => {
    const names = [kind, ...TOKEN_KINDS[kind].names];
    return names.map((name, rank) => [name, { kind, rank }] as const);
  }),
);

/** The kind of tokens that a count of a client has; undefined for an unknown name. */
export function kindOfCount(name: string): NamedKind | undefined {
  return KINDS_BY_NAME.get(name);
}

const NESTED: ReadonlyMap<string, ReadonlyMap<string, TokenKind>> = new Map(
  Object.entries(NESTED_COUNTS).map(([name, kinds]) => [name, new Map(Object.entries(kinds))]),
);

/** The kinds of the counts in an object within an object of counts, by name; undefined if its counts are unknown. */
export function nestedKinds(name: string): ReadonlyMap<string, TokenKind> | undefined {
  return NESTED.get(name);
}

/** The place of a tier of cache writes in its list, by name. */
const TIERS: ReadonlyMap<string, number> = new Map(
  CACHE_WRITE_TIERS.flatMap((names) => names.map((name, place) => [name, place] as const)),
);

/** Whether counts of this name are added up to the count of a kind, in place of being one. */
function isSummand(name: string): boolean {
  return TIERS.has(name) || name.startsWith(CACHED_PARTS);
}

/**
 * How a client counts parts. `included`: input has the cached tokens and output the tokens of reasoning. `langfuse`: they exclude
 * each other. `anthropic`: counts with Anthropic's names exclude each other, because clients pass on its usage object. `genkit`: as
 * `anthropic`, and the output excludes the tokens of reasoning if the total has room for them, because it passes on Google's counts.
 */
export type CountForm = 'included' | 'langfuse' | 'anthropic' | 'genkit';

export type SentCount = {
  readonly kind: string;
  readonly count: number;
  /** The tokens of the cache or of reasoning were added to it. */
  readonly isWhole?: boolean;
};

type Count = {
  readonly kind: string;
  readonly count: number;
  readonly rank: number;
  readonly name: string;
};

/**
 * The counts of one object, by the names of `TOKEN_KINDS`. A count of an unknown name keeps it, if `keepsUnknown`. Parts that
 * a client counts apart are added to their side, unless the total shows that they are included.
 */
export class UsageCounts {
  /** One of each kind. A client sends few kinds: a list costs less than a map. */
  readonly #counts: Count[] = [];
  /** The places in the list by kind, once it is long. */
  #places: Map<string, number> | undefined = undefined;

  #toolResults = 0;
  /** Cache-write tokens by tier. */
  #tiers: number[] | undefined = undefined;
  /** Counts of unknown names that may be apart from their side, by name. */
  #unknown: Map<string, number> | undefined = undefined;

  /** A count as the client names it. */
  add(name: string, count: number, keepsUnknown: boolean): void {
    const known = KINDS_BY_NAME.get(name);
    const isKnown = known !== undefined && (keepsUnknown || !isSummand(name));
    if (known === undefined && TOOL_RESULT_NAMES.has(name)) this.#toolResults = count;
    if (isKnown) this.#offer({ kind: known.kind, count, rank: known.rank, name });
    else if (!keepsUnknown) this.#addPart(name, count);
    // An amount of money, such as `total_cost`, is no count, even if it is a whole number.
    else if (!Object.hasOwn(COST_NAMES, name)) this.#offer({ kind: name, count, rank: 0, name });
  }

  #addPart(name: string, count: number): void {
    const tier = TIERS.get(name);
    if (tier !== undefined) this.#addTier(tier, count);
    else if (BEGINNINGS.some((beginning) => name.startsWith(beginning))) {
      this.#unknown ??= new Map();
      if (this.#unknown.size < SHORT_LIST) this.#unknown.set(name, count);
    }
  }

  #addTier(tier: number, count: number): void {
    this.#tiers ??= [0, 0];
    this.#tiers[tier] = count;
  }

  /** Adds the kinds that clients send in parts only. */
  #sumParts(): void {
    this.#sumTiers();
    this.#sumCachedParts();
  }

  /** The tiers are parts of the cache-write tokens: newer clients send 0 beside them, earlier ones the sum. */
  #sumTiers(): void {
    if (this.#tiers === undefined) return;
    const [minutes = 0, hour = 0] = this.#tiers;
    const count = minutes + hour;
    if (hour > 0) this.#offer({ kind: 'cache_write_1h_tokens', count: hour, rank: -1, name: '' });
    const sent = this.#found('cache_write_tokens');
    if (count <= (sent?.count ?? 0)) return;
    this.#offer({ kind: 'cache_write_tokens', count, rank: -1, name: sent?.name ?? '' });
  }

  /** A count of all cached tokens precedes the sum of their modalities. */
  #sumCachedParts(): void {
    const count = this.#unknown === undefined ? 0 : this.#ofBeginnings([CACHED_PARTS]);
    if (count > 0)
      this.#offer({ kind: 'cached_tokens', count, rank: NESTED_RANK, name: CACHED_PARTS });
  }

  /** A count within an object such as `prompt_tokens_details`. A count of its own precedes it. */
  addNested(kinds: ReadonlyMap<string, TokenKind>, name: string, count: number): void {
    const kind = kinds.get(name);
    const tier = TIERS.get(name);
    if (tier !== undefined) this.#addTier(tier, count);
    else if (kind !== undefined) this.#offer({ kind, count, rank: NESTED_RANK, name });
  }

  /** The last count of a rank counts. */
  #offer(found: Count): void {
    const at = this.#placeOf(found.kind);
    if (at === -1) {
      this.#places?.set(found.kind, this.#counts.length);
      this.#counts.push(found);
    } else if (found.rank <= (this.#counts[at] as Count).rank) this.#counts[at] = found;
  }

  #placeOf(kind: string): number {
    if (this.#counts.length >= SHORT_LIST) {
      this.#places ??= new Map(this.#counts.map((count, at) => [count.kind, at]));
      return this.#places.get(kind) ?? -1;
    }
    for (let at = 0; at < this.#counts.length; at++) {
      if (this.#counts[at]?.kind === kind) return at;
    }
    return -1;
  }

  get size(): number {
    this.#sumParts();
    return this.#counts.length;
  }

  /** The counts by kind, with the parts in their sides. */
  counts(form: CountForm): readonly SentCount[] {
    this.#sumParts();
    const sides = form === 'included' ? [] : this.#partsApart(form);
    if (sides.length === 0) return this.#withToolResults(this.#counts);
    const counts = this.#counts.map((own): SentCount => {
      const found = sides.find(({ side }) => side === own.kind);
      if (found === undefined) return own;
      const { parts, modalities = [], beginnings = [] } = found;
      const added = this.#sumOf(parts);
      const count = own.count + added + this.#sumOf(modalities) + this.#ofBeginnings(beginnings);
      return { ...own, count, isWhole: added > 0 };
    });
    return this.#withToolResults(counts);
  }

  /** A total shows that they are beside the input, whether the output includes the tokens of reasoning or not. */
  #withToolResults(counts: readonly SentCount[]): readonly SentCount[] {
    const results = this.#toolResults;
    if (results <= 0) return counts;
    const of = (kind: TokenKind) =>
      Math.max(0, counts.find((own) => own.kind === kind)?.count ?? 0);
    const total = this.#found('total_tokens')?.count;
    const sum = of('input_tokens') + of('output_tokens') + results;
    const isApart = total === undefined || total === sum || total === sum + of('reasoning_tokens');
    if (!isApart) return counts;
    return counts.map((own) =>
      own.kind === 'input_tokens' ? { ...own, count: own.count + results } : own,
    );
  }

  #ofBeginnings(beginnings: readonly string[]): number {
    let sum = 0;
    for (const [name, count] of this.#unknown ?? []) {
      if (beginnings.some((beginning) => name.startsWith(beginning))) sum += count;
    }
    return sum;
  }

  /** The counts as a usage, without a total of its own. */
  record(form: CountForm): TokenUsage {
    return Object.fromEntries(this.counts(form).map(({ kind, count }) => [kind, count]));
  }

  usage(form: CountForm): TokenUsage | null {
    return this.size === 0 ? null : completeUsage(this.record(form));
  }

  #partsApart(form: CountForm): readonly Side[] {
    const total = this.#found('total_tokens')?.count;
    if (total === this.#of('input_tokens') + this.#of('output_tokens')) return [];
    if (form === 'anthropic' || form === 'genkit') {
      if (this.#hasAnthropicNames()) return [INPUT];
      return form === 'genkit' && this.#isReasoningApart(total) ? [OUTPUT] : [];
    }
    // The own names of OpenAI and Google include the parts in Langfuse too.
    return SIDES.filter(({ side, includedAs }) => !includedAs.has(this.#found(side)?.name ?? ''));
  }

  #isReasoningApart(total = 0): boolean {
    const { side, parts } = OUTPUT;
    return total >= this.#of('input_tokens') + this.#of(side) + this.#sumOf(parts);
  }

  #hasAnthropicNames(): boolean {
    return INPUT.parts.some((part) => ANTHROPIC_NAMES.has(this.#found(part)?.name ?? ''));
  }

  #sumOf(kinds: readonly TokenKind[]): number {
    return kinds.reduce((sum, kind) => sum + this.#of(kind), 0);
  }

  /** A negative count, which native events may have, adds nothing. */
  #of(kind: string): number {
    return Math.max(0, this.#found(kind)?.count ?? 0);
  }

  #found(kind: string): Count | undefined {
    return this.#counts[this.#placeOf(kind)];
  }
}

/** A longer list has a map of its places, because a client may send any number of counts. */
const SHORT_LIST = 16;

const NESTED_RANK = 100;

type Side = {
  readonly side: TokenKind;
  readonly parts: readonly TokenKind[];
  readonly includedAs: ReadonlySet<string>;
  /** Further parts. */
  readonly modalities?: readonly TokenKind[];
  /** Those of further parts that no kind has. */
  readonly beginnings?: readonly string[];
};

const TOOL_RESULT_NAMES: ReadonlySet<string> = new Set(TOOL_RESULTS);

const BEGINNINGS = [CACHED_PARTS, ...Object.values(PARTS_APART).flat()];

const INPUT: Side = {
  side: 'input_tokens',
  parts: ['cached_tokens', 'cache_write_tokens'],
  includedAs: new Set(['prompt_tokens', 'promptTokenCount', 'prompt_token_count']),
};
const OUTPUT: Side = {
  side: 'output_tokens',
  parts: ['reasoning_tokens'],
  includedAs: new Set(['completion_tokens']),
};
/** The sides of Langfuse, whose counts exclude the modalities, too. */
const SIDES: readonly Side[] = [
  {
    ...INPUT,
    modalities: [
      'input_audio_tokens',
      'input_text_tokens',
      'input_image_tokens',
      'input_video_tokens',
    ],
    beginnings: PARTS_APART.input_tokens,
  },
  {
    ...OUTPUT,
    modalities: [
      'output_audio_tokens',
      'output_text_tokens',
      'output_image_tokens',
      'output_video_tokens',
    ],
    beginnings: PARTS_APART.output_tokens,
  },
];

const ANTHROPIC_NAMES: ReadonlySet<string> = new Set([
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
]);

/**
 * The usage with an input that includes the tokens of the cache. They are apart if a client counts so (`isApart`), if the total has room
 * for them, or if they are more than the input. `isWhole`: they were added.
 */
export function withCacheInInput(
  usage: TokenUsage,
  { isApart, isWhole }: { readonly isApart: boolean; readonly isWhole: boolean },
): TokenUsage {
  const { input_tokens: input, output_tokens: output = 0, total_tokens: total } = usage;
  const cache = (usage.cached_tokens ?? 0) + (usage.cache_write_tokens ?? 0);
  if (isWhole || input === undefined || cache === 0) return usage;
  const whole = input + cache + output;
  if (!isApart && cache <= input && total !== whole) return usage;
  const counted = { ...usage, input_tokens: input + cache };
  return total === undefined ? counted : { ...counted, total_tokens: Math.max(total, whole) };
}

/**
 * The usage with an output that includes the tokens of reasoning, and with a total. Clients that pass on the counts of Google or xAI
 * have them apart: the total has room for exactly all three counts, or reasoning is more than the output. `isWhole`: they were added.
 */
export function completeUsage(usage: TokenUsage, isWhole = false): TokenUsage {
  if (isWhole) return withTotal(usage);
  const { input_tokens: input = 0, output_tokens: output, total_tokens: total } = usage;
  const reasoning = usage.reasoning_tokens ?? 0;
  if (output === undefined || reasoning <= 0 || total === input + output) return withTotal(usage);
  const whole = input + output + reasoning;
  if (reasoning <= output && total !== whole) return withTotal(usage);
  const counted = { ...usage, output_tokens: output + reasoning };
  return total === undefined
    ? withTotal(counted)
    : { ...counted, total_tokens: Math.max(total, whole) };
}

/** The usage with a total: the one that was sent, else the sum of input and output. */
function withTotal(usage: TokenUsage): TokenUsage {
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  if (total !== undefined || (input === undefined && output === undefined)) return usage;
  return { ...usage, total_tokens: Math.max(0, input ?? 0) + Math.max(0, output ?? 0) };
}

/** A usage with the names of `TOKEN_KINDS`, of an observation that another version made. */
export function renamedUsage(usage: TokenUsage): TokenUsage {
  const counts = new UsageCounts();
  for (const [name, count] of Object.entries(usage)) counts.add(name, count, true);
  return counts.record('included');
}
