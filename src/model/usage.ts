import { COST_NAMES, NESTED_COUNTS, TOKEN_KINDS } from './conventions.ts';
import type { TokenUsage } from './observation.ts';

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

/**
 * How a client counts parts. `included`: input has the cached tokens and output the tokens of reasoning. `langfuse`: they exclude
 * each other. `anthropic`: counts with Anthropic's names exclude each other, because clients pass on its usage object.
 */
export type CountForm = 'included' | 'langfuse' | 'anthropic';

type Count = { readonly count: number; readonly rank: number; readonly name: string };

/**
 * The counts of one object, by the names of `TOKEN_KINDS`. A count of an unknown name keeps it, if `keepsUnknown`. Parts that
 * a client counts apart are added to their side, unless the total shows that they are included.
 */
export class UsageCounts {
  readonly #counts = new Map<string, Count>();

  /** A count as the client names it. */
  add(name: string, count: number, keepsUnknown: boolean): void {
    const known = KINDS_BY_NAME.get(name);
    if (known !== undefined) this.#offer(known.kind, { count, rank: known.rank, name });
    // An amount of money, such as `total_cost`, is no count, even if it is a whole number.
    else if (keepsUnknown && !Object.hasOwn(COST_NAMES, name))
      this.#offer(name, { count, rank: 0, name });
  }

  /** A count within an object such as `prompt_tokens_details`. A count of its own precedes it. */
  addNested(kinds: ReadonlyMap<string, TokenKind>, name: string, count: number): void {
    const kind = kinds.get(name);
    if (kind !== undefined) this.#offer(kind, { count, rank: NESTED_RANK, name });
  }

  /** The last count of a rank counts. */
  #offer(kind: string, found: Count): void {
    const before = this.#counts.get(kind);
    if (before === undefined || found.rank <= before.rank) this.#counts.set(kind, found);
  }

  get size(): number {
    return this.#counts.size;
  }

  /** The counts by kind, with the parts in their sides. */
  counts(form: CountForm): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const [kind, { count }] of this.#counts) counts.set(kind, count);
    if (form === 'included') return counts;
    for (const { side, parts } of this.#partsApart(form)) {
      const own = counts.get(side);
      if (own !== undefined)
        counts.set(
          side,
          parts.reduce((sum, part) => sum + this.#of(part), own),
        );
    }
    return counts;
  }

  usage(form: CountForm): TokenUsage | null {
    return this.#counts.size === 0 ? null : withTotal(Object.fromEntries(this.counts(form)));
  }

  #partsApart(form: CountForm): readonly Side[] {
    const total = this.#counts.get('total_tokens')?.count;
    if (total === this.#of('input_tokens') + this.#of('output_tokens')) return [];
    if (form === 'anthropic') return this.#hasAnthropicNames() ? [INPUT] : [];
    // OpenAI's own names include the parts in Langfuse too.
    return SIDES.filter(({ side, includedAs }) => this.#counts.get(side)?.name !== includedAs);
  }

  #hasAnthropicNames(): boolean {
    return INPUT.parts.some((part) => ANTHROPIC_NAMES.has(this.#counts.get(part)?.name ?? ''));
  }

  /** A negative count, which native events may have, adds nothing. */
  #of(kind: string): number {
    return Math.max(0, this.#counts.get(kind)?.count ?? 0);
  }
}

const NESTED_RANK = 100;

type Side = {
  readonly side: TokenKind;
  readonly parts: readonly TokenKind[];
  readonly includedAs: string;
};

const INPUT: Side = {
  side: 'input_tokens',
  parts: ['cached_tokens', 'cache_write_tokens'],
  includedAs: 'prompt_tokens',
};
const SIDES: readonly Side[] = [
  INPUT,
  { side: 'output_tokens', parts: ['reasoning_tokens'], includedAs: 'completion_tokens' },
];

const ANTHROPIC_NAMES: ReadonlySet<string> = new Set([
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
]);

/** The usage with a total: the one that was sent, else the sum of input and output. */
export function withTotal(usage: TokenUsage): TokenUsage {
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  if (total !== undefined || (input === undefined && output === undefined)) return usage;
  return { ...usage, total_tokens: Math.max(0, input ?? 0) + Math.max(0, output ?? 0) };
}

/** A usage with the names of `TOKEN_KINDS`, of an observation that another version made. */
export function renamedUsage(usage: TokenUsage): TokenUsage {
  const counts = new UsageCounts();
  for (const [name, count] of Object.entries(usage)) counts.add(name, count, true);
  return Object.fromEntries(counts.counts('included'));
}
