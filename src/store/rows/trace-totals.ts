/**
 * Tokens and cost of a trace, each call counted once. A parent may repeat the usage of its children (a client's span over a
 * gateway's, a chain that carries the sum of its calls), or be the only one that has it. So for each kind of token:
 *
 *   total(node) = max(own, sum of total(children))
 *
 * and the trace has the sum over its roots. Cost belongs to the side with more tokens, if that side has a cost; a tie goes to the
 * children. So the tokens of a call may be those of its parent, and its cost that of a child. Sibling spans of two instrumentation
 * scopes for one call count once, and so does the cost of the one that has any. The result does not depend on the order of arrival.
 */

/** The part of an observation that its trace's totals depend on. */
export type UsageNode = {
  readonly id: string;
  readonly parentId: string | null;
  /** Milliseconds since the epoch, with a fraction; null if unknown. */
  readonly start: number | null;
  readonly end: number | null;
  readonly model: string | null;
  readonly scope: string | null;
  /** The provider's id of the response. */
  readonly responseId: string | null;
  /** Counts of tokens by kind. */
  readonly usage: Readonly<Record<string, number>> | null;
  readonly cost: NodeCost | null;
};

/** In 10⁻⁹ USD; null for an unknown part. */
export type NodeCost = {
  readonly input: number | null;
  readonly output: number | null;
  readonly total: number;
};

export type TraceTotals = {
  /** Null if no observation has usage. */
  readonly usage: Readonly<Record<string, number>> | null;
  readonly cost: NodeCost | null;
  /** Ids of the observations whose own usage is in the totals. */
  readonly countedUsage: ReadonlySet<string>;
  /** Ids of the observations whose own cost is in the totals. */
  readonly countedCost: ReadonlySet<string>;
  /** Ids of the observations that had usage when the totals were made. */
  readonly summedUsage: ReadonlySet<string>;
  /** Ids of the observations that had a cost when the totals were made. */
  readonly summedCost: ReadonlySet<string>;
  /** Ids of the observations at which a cycle of parents was broken: they count as roots. */
  readonly cycles: ReadonlySet<string>;
};

/** O(n log n). Ids are distinct. */
export function traceTotals(nodes: readonly UsageNode[]): TraceTotals {
  const flat = hasCycle(nodes) ? undefined : flatTotals(nodes);
  if (flat === undefined) return nestedTotals(nodes);
  return {
    ...{ usage: flat.usage, cost: flat.cost },
    ...countedIn(nodes, flat),
    cycles: new Set(),
  };
}

function countedIn(
  nodes: readonly UsageNode[],
  { omittedUsage, omittedCost }: Omitted,
): Omit<TraceTotals, 'usage' | 'cost' | 'cycles'> {
  const used = nodes.filter(({ usage }) => usage !== null);
  const priced = nodes.filter(({ cost }) => cost !== null);
  return {
    countedUsage: idsOf(used.filter((node) => !omittedUsage.has(node))),
    countedCost: idsOf(priced.filter((node) => !omittedCost.has(node))),
    summedUsage: idsOf(used),
    summedCost: idsOf(priced),
  };
}

function idsOf(nodes: readonly UsageNode[]): ReadonlySet<string> {
  return new Set(nodes.map(({ id }) => id));
}

/** The totals by the whole tree, whatever is within what. */
export function nestedTotals(nodes: readonly UsageNode[]): TraceTotals {
  const { usage, cost, cycles, ...omitted } = sumsOfTree(nodes);
  return { usage, cost, ...countedIn(nodes, omitted), cycles: idsOf(cycles) };
}

type TreeTotals = SummaryTotals & { readonly cycles: readonly UsageNode[] };

function sumsOfTree(nodes: readonly UsageNode[]): TreeTotals {
  const tree = new Tree(nodes);
  const order = tree.parentsFirst();
  const sums = new Map<UsageNode, Sum>();
  const sumsOf = (node: UsageNode): Sum | undefined => sums.get(node);
  for (const node of order.toReversed()) {
    sums.set(node, sumOf(node, joined(tree.childrenOf(node), tree.repeats, sumsOf)));
  }
  const all = joined(tree.roots, tree.repeats, sumsOf);
  const { nodes: repeated } = tree.repeats;
  const unpriced = tree.repeats.unpriced(sumsOf);
  const omittedUsage = omittedIn(
    tree,
    order,
    repeated,
    (node) => sumsOf(node)?.hasOwnUsage === true,
  );
  const isMixed = order.some((node) => sumsOf(node)?.isMixed === true);
  return {
    ...{ usage: usageOf(all), cost: all.cost, omittedUsage },
    omittedTokens: ofEachKind((kind) =>
      isMixed
        ? omittedIn(tree, order, repeated, (node) => sumsOf(node)?.ownKinds[kind] === true)
        : omittedUsage,
    ),
    omittedCost: omittedIn(tree, order, unpriced, (node) => sumsOf(node)?.hasOwnCost === true),
    cycles: tree.cycles,
  };
}

/** The totals of a summary, which has no use for the tree. */
export type SummaryTotals = Pick<TraceTotals, 'usage' | 'cost'> & Omitted;

export type Omitted = {
  /** The nodes whose own usage is not in the totals. */
  readonly omittedUsage: ReadonlySet<UsageNode>;
  /** The nodes whose own cost is not in the totals. */
  readonly omittedCost: ReadonlySet<UsageNode>;
  /** The nodes whose own tokens of one of `SUMMED_KINDS`, in this order, are not in the totals. */
  readonly omittedTokens: readonly ReadonlySet<UsageNode>[];
};

/** The kinds of tokens that are summed up by model, kind and tool. */
export const SUMMED_KINDS = ['input_tokens', 'output_tokens', 'cached_tokens'] as const;

function ofEachKind<Value>(of: (kind: number) => Value): Value[] {
  return SUMMED_KINDS.map((_, kind) => of(kind));
}

export function summaryTotals(nodes: readonly UsageNode[]): SummaryTotals {
  return flatTotals(nodes) ?? sumsOfTree(nodes);
}

/**
 * The totals if no call is within another one, as in most traces: then each call counts. Else undefined. Hot path, runs for every
 * trace of a write.
 */
function flatTotals(nodes: readonly UsageNode[]): SummaryTotals | undefined {
  const calls = nodes.filter(hasUsage);
  if (calls.length === 0) {
    const omitted = {
      omittedUsage: NONE,
      omittedCost: NONE,
      omittedTokens: ofEachKind(() => NONE),
    };
    return { usage: null, cost: null, ...omitted };
  }
  if (mayNest(calls, nodes)) return undefined;
  const repeats = repeatedCalls(nodes);
  const all = joined(calls, repeats, ownSum);
  return {
    ...{ usage: usageOf(all), cost: all.cost },
    ...{ omittedUsage: repeats.nodes, omittedCost: repeats.unpriced(ownSum) },
    omittedTokens: ofEachKind(() => repeats.nodes),
  };
}

const NONE: ReadonlySet<UsageNode> = new Set();

/** Steps upwards for each node until a trace counts as nested, so that a deep one costs no square of its depth. */
const STEPS_A_NODE = 8;

function mayNest(calls: readonly UsageNode[], nodes: readonly UsageNode[]): boolean {
  const find = nodeFinder(nodes);
  let steps = STEPS_A_NODE * nodes.length;
  let lastId: string | null = null;
  for (const { parentId } of calls) {
    // Most calls are beside others, and the way upwards is the same for all of them.
    if (parentId === lastId) continue;
    lastId = parentId;
    let above = find(parentId);
    while (above !== undefined) {
      if (hasUsage(above) || steps-- === 0) return true;
      above = find(above.parentId);
    }
  }
  return false;
}

/** Look-ups by a walk over the nodes, before a map costs less. */
const WALKED_LOOKUPS = 4;

/** Finds nodes by id. V8 looks each key of a map up in its table of strings, so a map of all ids costs more than a few walks. */
function nodeFinder(nodes: readonly UsageNode[]): (id: string | null) => UsageNode | undefined {
  let lookups = 0;
  let byId: Map<string, UsageNode> | undefined;
  return (id) => {
    if (id === null) return undefined;
    if (lookups++ < WALKED_LOOKUPS) return nodes.findLast((node) => node.id === id);
    byId ??= new Map(nodes.map((node) => [node.id, node]));
    return byId.get(id);
  };
}

const [NEW, ON_PATH, DONE] = [0, 1, 2];

/** Whether the parents of any node lead back to it. */
function hasCycle(nodes: readonly UsageNode[]): boolean {
  const indexes = new Map<string, number>();
  for (const [i, { id }] of nodes.entries()) indexes.set(id, i);
  const parentOf = ({ parentId }: UsageNode) =>
    parentId === null ? -1 : (indexes.get(parentId) ?? -1);
  const parents = Int32Array.from(nodes, parentOf);
  const states = new Uint8Array(nodes.length);
  for (let i = 0; i < nodes.length; i++) {
    let at = i;
    for (; at >= 0 && states[at] === NEW; at = parents[at] ?? -1) states[at] = ON_PATH;
    if (at >= 0 && states[at] === ON_PATH) return true;
    for (at = i; at >= 0 && states[at] === ON_PATH; at = parents[at] ?? -1) states[at] = DONE;
  }
  return false;
}

/** Whether an observation brings something to the totals of its trace. */
export function hasUsage({ usage, cost }: Pick<UsageNode, 'usage' | 'cost'>): boolean {
  return usage !== null || cost !== null;
}

/** The sum over a node and its descendants. */
type Sum = {
  /** By kind, without `total_tokens`. */
  readonly kinds: Readonly<Record<string, number>>;
  /** Tokens in all, also of nodes that have only a total. */
  readonly tokens: number;
  readonly cost: NodeCost | null;
  /** Whether any node has usage or cost. */
  readonly isKnown: boolean;
  /** Whether any node has usage. */
  readonly isUsed: boolean;
  /** Whether the node's own usage is taken instead of its children's. */
  readonly hasOwnUsage: boolean;
  /** Whether the node's own cost is taken instead of its children's. */
  readonly hasOwnCost: boolean;
  /** As `hasOwnUsage`, for each of `SUMMED_KINDS`. */
  readonly ownKinds: readonly boolean[];
  /** Whether a kind is from the other side than most tokens. */
  readonly isMixed: boolean;
};

const NO_KIND = ofEachKind(() => false);
const EACH_KIND = ofEachKind(() => true);

const NOTHING: Sum = {
  ...{ kinds: {}, tokens: 0, cost: null, isKnown: false, isUsed: false },
  ...{ hasOwnUsage: false, hasOwnCost: false, ownKinds: NO_KIND, isMixed: false },
};

function sumOf(node: UsageNode, below: Sum): Sum {
  const own = ownSum(node);
  if (!own.isKnown) return below;
  if (!below.isKnown) return own;
  const kinds = { ...below.kinds };
  for (const kind of Object.keys(own.kinds)) {
    kinds[kind] = Math.max(own.kinds[kind] ?? 0, kinds[kind] ?? 0);
  }
  const isLarger = own.tokens > below.tokens;
  const hasOwnUsage = own.isUsed && (isLarger || !below.isUsed);
  const hasOwnCost = own.cost !== null && (isLarger || below.cost === null);
  const lead = (kind: (typeof SUMMED_KINDS)[number]): number =>
    (own.kinds[kind] ?? 0) - (below.kinds[kind] ?? 0);
  return {
    kinds,
    tokens: Math.max(own.tokens, below.tokens, splitTokens(kinds)),
    cost: hasOwnCost ? own.cost : below.cost,
    isKnown: true,
    isUsed: own.isUsed || below.isUsed,
    hasOwnUsage,
    hasOwnCost,
    ownKinds: SUMMED_KINDS.map((kind) => lead(kind) > 0),
    isMixed: SUMMED_KINDS.some((kind) => (hasOwnUsage ? lead(kind) < 0 : lead(kind) > 0)),
  };
}

function ownSum({ usage, cost }: UsageNode): Sum {
  const kinds: Record<string, number> = {};
  let total = 0;
  if (usage !== null) {
    for (const kind of Object.keys(usage)) {
      const count = usage[kind] ?? 0;
      if (count < 0) continue;
      if (kind === 'total_tokens') total = count;
      else kinds[kind] = count;
    }
  }
  const isSplit = kinds.input_tokens !== undefined || kinds.output_tokens !== undefined;
  const tokens = isSplit ? splitTokens(kinds) : total;
  const [isUsed, hasOwnCost] = [usage !== null, cost !== null];
  const isKnown = isUsed || hasOwnCost;
  const ownKinds = isUsed ? EACH_KIND : NO_KIND;
  // Hot path, runs for every call of a write: no spread of objects.
  return {
    kinds,
    tokens,
    cost,
    isKnown,
    isUsed,
    hasOwnUsage: isUsed,
    hasOwnCost,
    ownKinds,
    isMixed: false,
  };
}

function splitTokens(kinds: Readonly<Record<string, number>>): number {
  return (kinds.input_tokens ?? 0) + (kinds.output_tokens ?? 0);
}

/** The sum over siblings, of which those that repeat another one's call are left out. */
function joined(siblings: readonly UsageNode[], repeats: Repeats, sumFor: SumFor): Sum {
  let kinds: Record<string, number> | undefined;
  let tokens = 0;
  let cost: NodeCost | null = null;
  let isUsed = false;
  for (const node of siblings) {
    if (repeats.nodes.has(node)) continue;
    const one = sumFor(node);
    if (one === undefined || !one.isKnown) continue;
    if (kinds === undefined) kinds = { ...one.kinds };
    else
      for (const kind of Object.keys(one.kinds))
        kinds[kind] = (kinds[kind] ?? 0) + (one.kinds[kind] ?? 0);
    tokens += one.tokens;
    cost = addedCost(cost, one.cost ?? repeats.costOf(node, sumFor));
    isUsed ||= one.isUsed;
  }
  return kinds === undefined ? NOTHING : { ...NOTHING, kinds, tokens, cost, isUsed, isKnown: true };
}

function addedCost(a: NodeCost | null, b: NodeCost | null): NodeCost | null {
  if (a === null || b === null) return a ?? b;
  const part = (one: number | null, other: number | null) =>
    one === null || other === null ? (one ?? other) : one + other;
  return {
    input: part(a.input, b.input),
    output: part(a.output, b.output),
    total: a.total + b.total,
  };
}

function usageOf({ kinds, tokens, isKnown }: Sum): Readonly<Record<string, number>> | null {
  if (!isKnown) return null;
  const names = Object.keys(kinds).sort();
  if (names.length === 0 && tokens === 0) return null;
  const usage: Record<string, number> = {};
  for (const name of names) usage[name] = kinds[name] ?? 0;
  usage.total_tokens = tokens;
  return usage;
}

/** Nodes whose own value is not taken, or is an ancestor's instead. */
function omittedIn(
  tree: Tree,
  order: readonly UsageNode[],
  repeated: ReadonlySet<UsageNode>,
  hasOwn: (node: UsageNode) => boolean,
): ReadonlySet<UsageNode> {
  const omitted = new Set<UsageNode>();
  const covered = new Set(repeated);
  for (const node of order) {
    const isCovered = covered.has(node);
    const isOwn = hasOwn(node);
    if (isCovered || !isOwn) omitted.add(node);
    if (!isCovered && !isOwn) continue;
    for (const child of tree.childrenOf(node)) covered.add(child);
  }
  return omitted;
}

type SumFor = (node: UsageNode) => Sum | undefined;

/** Nodes whose call another node describes, which is kept. */
class Repeats {
  readonly nodes = new Set<UsageNode>();
  /** By the kept node. */
  readonly #others = new Map<UsageNode, UsageNode[]>();

  /** A kept node may become a repeated one. */
  add(node: UsageNode, kept: UsageNode): void {
    const others = this.#others.get(kept) ?? [];
    others.push(node, ...(this.#others.get(node) ?? []));
    this.#others.delete(node);
    this.#others.set(kept, others);
    this.nodes.add(node);
  }

  /** The cost of a call whose kept node has none. */
  costOf(kept: UsageNode, sumFor: SumFor): NodeCost | null {
    const priced = this.#priced(this.#others.get(kept), sumFor);
    return priced === undefined ? null : (sumFor(priced)?.cost ?? null);
  }

  /** The node with a cost that has the most tokens, else the first one. */
  #priced(others: readonly UsageNode[] = [], sumFor: SumFor): UsageNode | undefined {
    return others
      .filter((node) => (sumFor(node)?.cost ?? null) !== null)
      .sort((a, b) => ownSum(b).tokens - ownSum(a).tokens || byStart(a, b))[0];
  }

  /** The repeated nodes without those that the cost of a call is from. */
  unpriced(sumFor: SumFor): ReadonlySet<UsageNode> {
    const unpriced = new Set(this.nodes);
    for (const [kept, others] of this.#others) {
      const priced =
        (sumFor(kept)?.cost ?? null) === null ? this.#priced(others, sumFor) : undefined;
      if (priced !== undefined) unpriced.delete(priced);
    }
    return unpriced;
  }
}

/**
 * The nodes whose call another instrumentation scope describes too: siblings at overlapping times with the same response, or
 * of the same model with the same tokens. Each call keeps the span with the most tokens, else its first one. If that has no cost, the
 * call has the cost of another one.
 */
function repeatedCalls(nodes: readonly UsageNode[]): Repeats {
  const repeats = new Repeats();
  const calls = nodes.filter(({ usage, scope }) => usage !== null && scope !== null);
  // Most traces have calls of one scope, which cannot repeat each other.
  const [first] = calls;
  if (first === undefined || calls.every(({ scope }) => scope === first.scope)) return repeats;
  addRepeatedBy(
    ({ parentId, responseId }) => {
      return responseId === null ? undefined : JSON.stringify([parentId, responseId]);
    },
    calls,
    repeats,
  );
  addRepeatedBy(
    ({ parentId, model, usage }) => {
      return JSON.stringify([parentId, model, Object.entries(usage ?? {}).sort()]);
    },
    calls,
    repeats,
  );
  return repeats;
}

/** Nodes with the same name may be one call; those without a name are not. */
function addRepeatedBy(
  nameOf: (node: UsageNode) => string | undefined,
  calls: readonly UsageNode[],
  repeats: Repeats,
): void {
  const open = calls.filter((node) => !repeats.nodes.has(node));
  for (const [name, group] of Map.groupBy(open, nameOf)) {
    if (name !== undefined && group.length > 1) addRepeated(group.toSorted(byStart), repeats);
  }
}

/** A call: its first span, the span that is kept, and the scopes of its spans. */
type KeptCall = { readonly first: UsageNode; kept: UsageNode; readonly scopes: Set<string | null> };

function addRepeated(group: readonly UsageNode[], repeats: Repeats): void {
  let calls: KeptCall[] = [];
  for (const node of group) {
    calls = calls.filter((call) => overlaps(call.first, node));
    const call = calls.find(({ scopes }) => !scopes.has(node.scope));
    if (call === undefined) {
      calls.push({ first: node, kept: node, scopes: new Set([node.scope]) });
      continue;
    }
    call.scopes.add(node.scope);
    if (ownSum(node).tokens > ownSum(call.kept).tokens) {
      repeats.add(call.kept, node);
      call.kept = node;
    } else repeats.add(node, call.kept);
  }
}

/** `b` starts at or after the start of `a`. */
function overlaps(a: UsageNode, b: UsageNode): boolean {
  if (a.start === null || b.start === null) return false;
  return b.start <= (a.end ?? a.start);
}

/** By start, unknown ones last, then by id: the order does not depend on the arrival. */
function byStart(a: UsageNode, b: UsageNode): number {
  const [first, second] = [
    a.start ?? Number.POSITIVE_INFINITY,
    b.start ?? Number.POSITIVE_INFINITY,
  ];
  if (first !== second) return first < second ? -1 : 1;
  return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
}

/** The nodes by parent. A node whose parent is not among them is a root; a cycle is broken at its earliest node. */
class Tree {
  readonly #children = new Map<string, UsageNode[]>();
  readonly roots: readonly UsageNode[];
  readonly cycles: readonly UsageNode[];
  readonly repeats: Repeats;

  constructor(nodes: readonly UsageNode[]) {
    const byId = new Map(nodes.map((node) => [node.id, node]));
    const roots: UsageNode[] = [];
    for (const node of nodes) {
      const { parentId } = node;
      if (parentId === null || !byId.has(parentId)) roots.push(node);
      else this.#addChild(parentId, node);
    }
    this.roots = roots;
    this.cycles = this.#breakCycles(nodes, byId);
    for (const node of this.cycles) roots.push(node);
    // A node at which a cycle is broken is a root: a sibling by its parent may be below it.
    const broken = new Set(this.cycles);
    this.repeats = repeatedCalls(
      broken.size === 0 ? nodes : nodes.filter((node) => !broken.has(node)),
    );
  }

  #addChild(parentId: string, node: UsageNode): void {
    const siblings = this.#children.get(parentId);
    if (siblings === undefined) this.#children.set(parentId, [node]);
    else siblings.push(node);
  }

  childrenOf({ id }: UsageNode): readonly UsageNode[] {
    return this.#children.get(id) ?? [];
  }

  /** Nodes that no root leads to are in a cycle, or below one. */
  #breakCycles(
    nodes: readonly UsageNode[],
    byId: ReadonlyMap<string, UsageNode>,
  ): readonly UsageNode[] {
    const reached = new Set(this.parentsFirst());
    if (reached.size === nodes.length) return [];
    const earliest: UsageNode[] = [];
    for (const node of nodes) {
      if (reached.has(node)) continue;
      const first = cycleAbove(node, byId).toSorted(byStart)[0] ?? node;
      this.#detach(first);
      earliest.push(first);
      for (const below of this.#below([first])) reached.add(below);
    }
    return earliest.toSorted(byStart);
  }

  #detach(node: UsageNode): void {
    const siblings = this.#children.get(node.parentId ?? '') ?? [];
    this.#children.set(
      node.parentId ?? '',
      siblings.filter((sibling) => sibling !== node),
    );
  }

  /** Every node behind its parent. */
  parentsFirst(): readonly UsageNode[] {
    return this.#below(this.roots);
  }

  #below(tops: readonly UsageNode[]): readonly UsageNode[] {
    const order = [...tops];
    for (let at = 0; at < order.length; at++) {
      const node = order[at];
      if (node !== undefined) for (const child of this.childrenOf(node)) order.push(child);
    }
    return order;
  }
}

/** The nodes of the cycle that the parents of a node lead to. */
function cycleAbove(node: UsageNode, byId: ReadonlyMap<string, UsageNode>): readonly UsageNode[] {
  const path = new Map<UsageNode, number>();
  let at: UsageNode | undefined = node;
  while (at !== undefined && !path.has(at)) {
    path.set(at, path.size);
    at = byId.get(at.parentId ?? '');
  }
  const entry = at === undefined ? 0 : (path.get(at) ?? 0);
  return [...path.keys()].slice(entry);
}
