import t from 'tap';
import { postgresServer } from '../helper/postgres-server.ts';
import { difference, startTwins, type Twins } from './alike.ts';
import { json, list, record } from './client.ts';
import type { Daemon, Tree } from './daemon.ts';
import { drawnQuery } from './drawn-queries.ts';
import { DrawnTraces } from './drawn-traces.ts';
import { Draw, HOUR_MS, iso, SESSIONS, USERS } from './drawn-values.ts';
import { facetProblems, groupProblems, statsProblems } from './listed-sums.ts';

/**
 * SQLite and Postgres answer alike, whatever is stored and asked. A seed draws traces and queries; the answers of each store also
 * agree with one another: pages make the whole list, and sums are those of the listed traces. `TRACECTL_TEST_SEED=7` draws others.
 */

t.setTimeout(600_000);

const ROUNDS = 2;
const TRACES = 50;
const QUERIES = 60;
/** Traces whose trees are compared after each step. */
const TREES = 15;
/** Fields whose values are counted for each query. */
const FACETS_OF_LIST = 3;

/** Fields in an order that mixes those of rollups and those that are counted in traces. */
const FACETS = [
  ...['name', 'state', 'span', 'model', 'tag', 'prompt', 'user', 'release', 'error', 'session'],
  ...['source', 'custom.env', 'status', 'provider', 'kind', 'environment', 'tool'],
];
const GROUPS = [...['name', 'model', 'user', 'session', 'status', 'kind', 'tool', 'environment']];
const RUN_QUERIES: readonly ((id: string) => Tree)[] = [
  (trace) => ({ trace, limit: 50 }),
  (id) => ({ id: [id] }),
  () => ({ is_root: true, limit: 20 }),
  () => ({ run_type: 'llm', limit: 100 }),
  () => ({ run_type: 'tool', limit: 100 }),
  () => ({ error: true, limit: 100 }),
  () => ({ filter: 'eq(name, "plan trip")', limit: 100 }),
];
/** Members of runs with ids of the store. */
const RUN_IDS = ['cursors', 'session_id', 'app_path'];

const seed = Number(process.env.TRACECTL_TEST_SEED ?? 1);
const server = await postgresServer(t);

t.test(`both stores give the same answers, drawn from seed ${seed}`, async (t) => {
  const twins = await startTwins(t, server);
  const readers = new Readers(twins, new Draw(seed));
  for (let round = 0; round < ROUNDS && twins.problems.length === 0; round += 1) {
    await readers.send();
    await readers.read();
    await readers.restart();
    await readers.erase();
    await readers.read();
  }
  t.ok(twins.compared > 500, `${twins.compared} answers are compared`);
  t.same(twins.problems.slice(0, 20), [], `TRACECTL_TEST_SEED=${seed} draws this again`);
});

class Readers {
  readonly #twins: Twins;
  readonly #draw: Draw;
  readonly #drawn: DrawnTraces;
  /** Has every drawn start, and the arrival of traces without one. */
  readonly #range: string;

  constructor(twins: Twins, draw: Draw) {
    this.#twins = twins;
    this.#draw = draw;
    this.#drawn = new DrawnTraces(draw, twins.begun);
    const [from, to] = [twins.begun - 40 * 24 * HOUR_MS, twins.begun + HOUR_MS];
    this.#range = `from=${iso(from)}&to=${iso(to)}`;
  }

  async send(): Promise<void> {
    await this.#twins.send(this.#drawn.requests(TRACES));
    await this.#twins.stored(this.#drawn.ids.at(-1) ?? '');
    await this.#twins.send(this.#drawn.scores(15));
  }

  async restart(): Promise<void> {
    await this.#twins.restart(this.#draw.one(['SIGTERM', 'SIGKILL']));
  }

  /** Erases the traces of a query that matches some. */
  async erase(): Promise<void> {
    const before = await this.#idsOf('');
    for (let attempt = 0; attempt < 20; attempt += 1) {
      const query = this.#query();
      const found = await this.#idsOf(query);
      if (found.length === 0 || found.length > before.length / 2) continue;
      const traces = await this.#twins.erase(query);
      await this.#twins.settled();
      const kept = before.filter((id) => !found.includes(id));
      if (traces !== found.length) this.#report(`erase ${query}: ${traces} of ${found.length}`);
      this.#differ(`left by erase ${query}`, await this.#idsOf(''), kept);
      return;
    }
  }

  async read(): Promise<void> {
    await this.#twins.settled();
    for (const id of this.#drawn.ids.slice(-TREES))
      await this.#readTrace(encodeURIComponent(id), id);
    for (const field of FACETS)
      await this.#twins.object(`/api/v1/facets?field=${field}&limit=1000`);
    for (let left = QUERIES; left > 0; left -= 1) await this.#readList(this.#query());
    for (const id of SESSIONS) {
      await this.#twins.object(`/api/v1/sessions/${encodeURIComponent(id)}?limit=1000`);
    }
    for (const id of USERS) await this.#twins.object(`/api/v1/users/${encodeURIComponent(id)}`);
    for (const body of RUN_QUERIES) {
      const id = this.#draw.one(this.#drawn.ids);
      await this.#twins.posted('/api/v1/runs/query', body(id), RUN_IDS);
    }
    for (const query of ['', this.#query()]) await this.#readExports(query);
  }

  async #readTrace(path: string, id: string): Promise<void> {
    await this.#twins.object(`/api/v1/traces/${path}?payloads=true`);
    await this.#twins.object(`/api/v1/traces/${path}/otlp`);
    await this.#twins.object(`/api/v1/traces/${path}/scores`);
    const answer = await this.#twins.object(`/api/v1/traces/${path}?fields=tree`);
    if (answer === undefined) return;
    const observations = list(answer.observations).map(record);
    const { observation_count: count } = record(answer.trace);
    if (count !== observations.length) this.#report(`${id}: ${count} of ${observations.length}`);
    const one = encodeURIComponent(String(this.#draw.one(observations).id));
    await this.#twins.object(`/api/v1/observations/${one}?trace_id=${path}`);
    await this.#twins.object(`/api/v1/observations/${one}`);
    const pages = `/api/v1/traces/${path}?limit=${this.#part(observations)}`;
    const paged = await this.#pages(pages, 'observations');
    const ids = (rows: readonly Tree[]) => rows.map((row) => String(row.id)).sort();
    this.#differ(`pages of ${id}`, ids(paged), ids(observations));
  }

  async #readList(query: string): Promise<void> {
    const draw = this.#draw;
    const sort = `sort=${draw.one(['start', 'latency', 'cost', 'tokens'])}`;
    const path = `/api/v1/traces?${sort}&order=${draw.one(['asc', 'desc'])}&${this.#of(query)}`;
    const answer = await this.#twins.object(`${path}&limit=1000`);
    // Both refuse a query, e.g. of a range whose end is before its start.
    if (answer === undefined) return;
    const traces = list(answer.traces).map(record);
    const paged = await this.#pages(`${path}&limit=${this.#part(traces)}`, 'traces');
    const ids = (rows: readonly Tree[]) => rows.map((row) => row.id);
    this.#differ(`pages of ${path}`, ids(paged), ids(traces));
    const first = draw.below(FACETS.length - FACETS_OF_LIST + 1);
    for (const field of FACETS.slice(first, first + FACETS_OF_LIST)) {
      await this.#readFacet(field, query, traces);
    }
    await this.#readStats(query, traces);
    if (draw.chance(40)) await this.#readGroups(query, traces);
  }

  async #readFacet(field: string, query: string, traces: readonly Tree[]): Promise<void> {
    const path = `/api/v1/facets?field=${field}&limit=1000&${this.#of(query)}`;
    const facet = await this.#twins.object(path);
    if (facet === undefined) return;
    for (const text of facetProblems(field, facet, traces)) this.#report(`${text} in ${path}`);
  }

  async #readStats(query: string, traces: readonly Tree[]): Promise<void> {
    const draw = this.#draw;
    const step = draw.one(['1h', '1d']);
    const path = `/api/v1/stats?step=${step}&limit=100&${this.#of(query)}`;
    await this.#twins.object(`${path}&group_by=${draw.one(GROUPS)}`);
    const stats = await this.#twins.object(path);
    if (stats === undefined || isOfObservations(query)) return;
    for (const text of statsProblems(stats, traces)) this.#report(`${text} in ${path}`);
  }

  async #readGroups(query: string, traces: readonly Tree[]): Promise<void> {
    const isOfUsers = this.#draw.chance(50);
    const name = isOfUsers ? 'users' : 'sessions';
    const path = `/api/v1/${name}?limit=1000&${this.#of(query)}`;
    const answer = await this.#twins.object(path);
    if (answer === undefined) return;
    const groups = list(answer[name]).map(record);
    const problems = groupProblems(groups, isOfUsers ? 'user_id' : 'session_id', traces);
    for (const text of problems) this.#report(`${text} in ${path}`);
  }

  async #readExports(query: string): Promise<void> {
    const path = `/api/v1/export?q=${encodeURIComponent(query)}`;
    await this.#twins.lines(path);
    await this.#twins.lines(`${path}&of=observations`);
    await this.#twins.lines(`${path}&of=observations&payloads=true`);
    await this.#twins.lines(`${path}&format=otlp`);
  }

  async #idsOf(query: string): Promise<readonly unknown[]> {
    const answer = await this.#twins.object(`/api/v1/traces?limit=1000&${this.#of(query)}`);
    return answer === undefined ? [] : list(answer.traces).map((trace) => record(trace).id);
  }

  /** The limit of pages that need two to five requests. */
  #part(items: readonly unknown[]): number {
    return Math.max(1, Math.ceil(items.length / (2 + this.#draw.below(4))));
  }

  /** The items of all pages of one of the stores. */
  async #pages(path: string, member: string): Promise<Tree[]> {
    const daemon: Daemon = this.#draw.one(this.#twins.daemons);
    const items: Tree[] = [];
    let cursor = '';
    do {
      const answer = await daemon.call({ path: `${path}${cursor}` });
      if (answer.status !== 200)
        throw new Error(`${path}${cursor}: ${answer.status} ${answer.body}`);
      const page = record(json(answer));
      items.push(...list(page[member]).map(record));
      const { next_cursor: next } = page;
      cursor = typeof next === 'string' ? `&cursor=${encodeURIComponent(next)}` : '';
    } while (cursor !== '');
    return items;
  }

  #query(): string {
    return drawnQuery(this.#draw, this.#drawn.ids, this.#twins.begun);
  }

  #of(query: string): string {
    return `q=${encodeURIComponent(query)}&${this.#range}`;
  }

  #differ(name: string, found: readonly unknown[], expected: readonly unknown[]): void {
    const problem = difference(found, expected);
    if (problem !== undefined) this.#report(`${problem} in ${name}`);
  }

  #report(problem: string): void {
    this.#twins.report(problem);
  }
}

/** The statistics of such a query are of the observations with the value, not of their traces. */
function isOfObservations(query: string): boolean {
  return /^-?(model|kind|tool):("[^"]*"|[^" ]*)$/.test(query);
}
