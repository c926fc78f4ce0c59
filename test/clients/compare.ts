/** A trace that a client stores: the listed fields are compared, and the shape of the tree is exact. */
export type ExpectedTrace = {
  readonly name: string;
  readonly session?: string;
  readonly user?: string;
  readonly tags?: readonly string[];
  /** The totals of the trace. */
  readonly usage?: Readonly<Record<string, number>>;
  readonly scores?: Pattern;
  readonly tree: readonly Expected[];
};

export type Expected = {
  readonly name: string | RegExp;
  readonly kind: string;
  readonly model?: string;
  readonly provider?: string;
  readonly tool?: string;
  /** Without it the observation has no counts. */
  readonly usage?: Readonly<Record<string, number>>;
  readonly cost?: Pattern;
  readonly inputs?: unknown;
  readonly outputs?: unknown;
  readonly error?: Pattern;
  readonly metadata?: Pattern;
  readonly session?: string;
  readonly user?: string;
  readonly tags?: readonly string[];
  readonly attachments?: readonly Pattern[];
  readonly hasFirstToken?: boolean;
  readonly children?: readonly Expected[];
};

type Pattern = Readonly<Record<string, unknown>>;

/** A trace as the API returns it. */
export type Found = {
  readonly trace: Pattern;
  readonly observations: readonly Pattern[];
};

/** Compares the traces of a client with the expected ones; returns a sentence for each difference. */
export function differences(found: readonly Found[], expected: readonly ExpectedTrace[]): string[] {
  const names = (list: readonly unknown[]) => list.map(String).toSorted().join(', ') || 'none';
  const foundNames = names(found.map(({ trace }) => trace.name));
  const expectedNames = names(expected.map(({ name }) => name));
  if (foundNames !== expectedNames) return [`traces: found ${foundNames}, not ${expectedNames}`];
  const left = [...found];
  return expected.flatMap((each) => {
    // Traces of one name are in any order.
    const all = left
      .filter(({ trace }) => trace.name === each.name)
      .map((one) => ({ one, wrong: traceDifferences(one, each) }));
    const best = all.toSorted((a, b) => a.wrong.length - b.wrong.length)[0];
    if (best === undefined) return [];
    left.splice(left.indexOf(best.one), 1);
    return best.wrong;
  });
}

function traceDifferences({ trace, observations }: Found, expected: ExpectedTrace): string[] {
  const place = `trace ${expected.name}`;
  const ids = new Set(observations.map(({ id }) => id));
  return [
    ...fieldDifferences(place, trace, {
      ...(expected.session !== undefined && { session_id: expected.session }),
      ...(expected.user !== undefined && { user_id: expected.user }),
      ...(expected.tags !== undefined && { tags: expected.tags }),
      ...(expected.usage !== undefined && { usage: expected.usage }),
      ...(expected.scores !== undefined && { scores: expected.scores }),
    }),
    ...observations
      .filter(({ parent_id }) => parent_id !== null && !ids.has(parent_id))
      .map(({ name }) => `${place}: the parent of ${String(name)} is missing`),
    ...levelDifferences(place, observations, null, expected.tree),
  ];
}

/** Compares the children of one observation, in the order of their start. */
function levelDifferences(
  place: string,
  all: readonly Pattern[],
  parent: unknown,
  expected: readonly Expected[],
): string[] {
  const level = all
    .filter(({ parent_id }) => parent_id === parent)
    .toSorted((a, b) => (String(a.start_time) < String(b.start_time) ? -1 : 1));
  const fits = (one: Pattern, { name, kind }: Expected) =>
    one.kind === kind && (typeof name === 'string' ? one.name === name : name.test(`${one.name}`));
  const left = [...level];
  const pairs = expected.map((each) => {
    const index = left.findIndex((one) => fits(one, each));
    return { each, one: index < 0 ? undefined : left.splice(index, 1)[0] };
  });
  const seen = level.map(({ name, kind }) => `${String(name)} (${String(kind)})`).join(', ');
  return [
    ...left.map(({ name, kind }) => `${place}: ${String(name)} (${String(kind)}) is unexpected`),
    ...pairs.flatMap(({ each, one }) => {
      if (one === undefined) {
        return [`${place}: ${String(each.name)} (${each.kind}) is not among ${seen || 'none'}`];
      }
      const here = `${place} > ${String(one.name)}`;
      return [
        ...fieldDifferences(here, one, fieldsOf(each)),
        ...levelDifferences(here, all, one.id, each.children ?? []),
      ];
    }),
  ];
}

function fieldsOf(each: Expected): Pattern {
  return {
    ended: true,
    state: each.error === undefined ? 'finished' : 'error',
    error: each.error ?? null,
    ignored: [],
    ...(each.model !== undefined && { model: each.model }),
    ...(each.provider !== undefined && { provider: each.provider }),
    ...(each.tool !== undefined && { tool: each.tool }),
    usage: each.usage ?? null,
    ...(each.cost !== undefined && { cost: each.cost }),
    ...(each.inputs !== undefined && { inputs: each.inputs }),
    ...(each.outputs !== undefined && { outputs: each.outputs }),
    ...(each.metadata !== undefined && { metadata: each.metadata }),
    ...(each.session !== undefined && { session_id: each.session }),
    ...(each.user !== undefined && { user_id: each.user }),
    ...(each.tags !== undefined && { tags: each.tags }),
    ...(each.attachments !== undefined && { attachments: each.attachments }),
    ...(each.hasFirstToken !== undefined && { ttft_ms: each.hasFirstToken ? Number : null }),
  };
}

function fieldDifferences(place: string, one: Pattern, fields: Pattern): string[] {
  return Object.entries(fields)
    .filter(([field, pattern]) => !matches(one[field] ?? null, pattern))
    .map(([field, pattern]) => `${place}: ${field} is ${show(one[field])}, not ${show(pattern)}`);
}

/**
 * Whether a value has the members of a pattern, which may have more; lists have the same length. A regular expression
 * fits a text, and `Number` any number.
 */
function matches(value: unknown, pattern: unknown): boolean {
  if (pattern === Number) return typeof value === 'number';
  if (pattern instanceof RegExp) return typeof value === 'string' && pattern.test(value);
  if (Array.isArray(pattern)) {
    const isSame = Array.isArray(value) && value.length === pattern.length;
    return isSame && pattern.every((each, i) => matches(value[i], each));
  }
  if (typeof pattern === 'object' && pattern !== null) {
    if (typeof value !== 'object' || value === null) return false;
    const members = value as Pattern;
    return Object.entries(pattern).every(([key, each]) => matches(members[key], each));
  }
  return Object.is(value, pattern);
}

function show(value: unknown): string {
  const plain = (_key: string, each: unknown) =>
    each instanceof RegExp ? String(each) : each === Number ? 'a number' : each;
  return JSON.stringify(value ?? null, plain).slice(0, 1000);
}
