import { isAbout } from './alike.ts';
import { list, record } from './client.ts';
import type { Tree } from './daemon.ts';

/** Compares facets, statistics, sessions and users with the listed traces. One sentence for each difference. */

/** The members of a listed trace that facets count. */
const COUNTED: Readonly<Record<string, (trace: Tree) => unknown>> = {
  name: ({ name }) => [name],
  user: ({ user_id }) => [user_id],
  session: ({ session_id }) => [session_id],
  status: ({ status }) => [status],
  state: ({ state }) => [state],
  source: ({ source }) => [source],
  environment: ({ environment }) => [environment],
  release: ({ release }) => [release],
  tag: ({ tags }) => tags,
  model: ({ models }) => models,
  'custom.env': ({ custom_fields }) => [record(custom_fields).env],
};

/** Longer values are cut, in lists and in facets at other places. */
const WHOLE_LENGTH = 199;

export function facetProblems(field: string, facet: Tree, traces: readonly Tree[]): string[] {
  const valuesOf = COUNTED[field];
  if (valuesOf === undefined) return [];
  const listed = new Map<unknown, number>();
  for (const trace of traces) {
    for (const value of new Set(list(valuesOf(trace)))) add(listed, value);
  }
  const counted = new Map<unknown, number>();
  for (const each of list(facet.values).map(record)) counted.set(each.value, Number(each.traces));
  return [...new Set([...listed.keys(), ...counted.keys()])]
    .filter((value) => typeof value === 'string' && value !== '' && value.length <= WHOLE_LENGTH)
    .filter((value) => listed.get(value) !== counted.get(value))
    .map((value) => `${value} counts ${counted.get(value)}, listed ${listed.get(value)}`);
}

function add(counts: Map<unknown, number>, value: unknown): void {
  counts.set(value, (counts.get(value) ?? 0) + 1);
}

type Sums = {
  traces: number;
  observations: number;
  errors: number;
  input: number;
  output: number;
  cost: number;
};

const noSums = (): Sums => ({
  ...{ traces: 0, observations: 0, errors: 0, input: 0, output: 0, cost: 0 },
});

function addTrace(sums: Sums, trace: Tree): void {
  sums.traces += 1;
  sums.observations += Number(trace.observation_count);
  sums.errors += Number(trace.error_count);
  const { usage, cost } = trace;
  if (usage !== null) {
    sums.input += Number(record(usage).input_tokens ?? 0);
    sums.output += Number(record(usage).output_tokens ?? 0);
  }
  if (cost !== null) sums.cost += Number(record(cost).total ?? 0);
}

function sumsProblem(found: Sums, listed: Sums): string[] {
  const isSame = Object.keys(listed).every((name) =>
    isAbout(found[name as keyof Sums], listed[name as keyof Sums]),
  );
  return isSame ? [] : [`${JSON.stringify(found)}, listed ${JSON.stringify(listed)}`];
}

/** Of statistics without `group_by`. */
export function statsProblems(stats: Tree, traces: readonly Tree[]): string[] {
  const [found, listed] = [noSums(), noSums()];
  for (const trace of traces) addTrace(listed, trace);
  for (const group of list(stats.groups).map(record)) {
    for (const point of list(group.points).map(record)) {
      found.traces += Number(point.traces);
      found.observations += Number(point.observations);
      found.errors += Number(point.errors);
      found.input += Number(point.input_tokens);
      found.output += Number(point.output_tokens);
      found.cost += Number(point.cost);
    }
  }
  return sumsProblem(found, listed);
}

/** Of sessions or users: `member` of a trace has the id. */
export function groupProblems(
  groups: readonly Tree[],
  member: 'session_id' | 'user_id',
  traces: readonly Tree[],
): string[] {
  const listed = new Map<unknown, Sums>();
  for (const trace of traces) {
    const id = trace[member];
    if (id === null) continue;
    const sums = listed.get(id) ?? noSums();
    addTrace(sums, trace);
    listed.set(id, sums);
  }
  const problems = groups.flatMap((group) => {
    const { traces: count, observations, errors, usage, cost } = group;
    const found = noSums();
    addTrace(found, { observation_count: observations, error_count: errors, usage, cost });
    found.traces = Number(count);
    return sumsProblem(found, listed.get(group.id) ?? noSums()).map(
      (text) => `${group.id}: ${text}`,
    );
  });
  const isComplete = groups.length === listed.size;
  return isComplete ? problems : [`${groups.length} groups, listed ${listed.size}`, ...problems];
}
