import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import type { PostgresServer } from '../helper/postgres-server.ts';
import { type Answer, eventually, record } from './client.ts';
import { sql } from './cluster.ts';
import { type Daemon, startDaemon, type Tree } from './daemon.ts';
import type { Sent } from './drawn-traces.ts';
import { onPostgres } from './on-postgres.ts';
import { treeAt } from './shipped.ts';

/**
 * Two daemons, one with SQLite and one with Postgres, that get the same requests. Every answer of one is compared with that of the
 * other, but for ids that a store makes and times of arrival.
 */
export class Twins {
  readonly daemons: readonly [sqlite: Daemon, postgres: Daemon];
  /** Sentences about every difference. */
  readonly problems: string[] = [];
  /** Answers that were compared, without refusals. */
  compared = 0;
  /** Drawn times are before it, and times of arrival are not. */
  readonly begun: number;
  readonly #database: string;

  constructor(daemons: readonly [Daemon, Daemon], database: string, begun: number) {
    this.daemons = daemons;
    this.#database = database;
    this.begun = begun;
  }

  /** Adds a sentence, and cuts long values in it. */
  report(problem: string): void {
    this.problems.push(problem.slice(0, 600));
  }

  /** Sends requests one after another, so that both stores see the same order of arrival. */
  async send(requests: readonly Sent[]): Promise<void> {
    for (const { path, body } of requests) {
      const headers = { 'content-type': 'application/json' };
      const call = { method: 'POST', path, headers, body: JSON.stringify(body) };
      const [one, other] = await this.#both((daemon) => daemon.call(call));
      if (one.status !== other.status || one.status >= 300) {
        this.report(`POST ${path}: ${one.status} and ${other.status} ${one.body}`);
      }
      // Two requests of one millisecond arrive in any order.
      await pause(2);
    }
  }

  /** Waits until a trace and all that was sent before are stored. */
  async stored(trace: string): Promise<void> {
    const path = `/api/v1/traces/${encodeURIComponent(trace)}?wait=30s`;
    const answers = await this.#both((daemon) => daemon.call({ path, timeoutMs: 60_000 }));
    for (const { status, body } of answers) {
      if (status !== 200) throw new Error(`${path}: ${status} ${body}`);
    }
  }

  /** Waits until both stores have summarized and indexed all that they have. */
  async settled(): Promise<void> {
    await this.#both((daemon) =>
      eventually(
        () => this.#unfinished(daemon),
        (counts) => Object.values(counts).every((count) => count === 0),
        'summaries and an index of all traces',
        120_000,
      ),
    );
  }

  async #unfinished(daemon: Daemon): Promise<Record<string, number>> {
    const unsummarized = await this.#unsummarized(daemon);
    const status = await daemon.cli('search', 'status', '--json');
    const { state, waiting } = record(JSON.parse(status.stdout));
    return { unsummarized, unindexed: state === 'ready' ? Number(waiting) : 1 };
  }

  async #unsummarized(daemon: Daemon): Promise<number> {
    const text = 'SELECT count(*) AS traces FROM traces WHERE stale_changes > 0';
    if (daemon === this.daemons[1]) return Number((await sql(this.#database, text))[0]?.traces);
    const database = new DatabaseSync(join(daemon.directory, 'data/store.db'), { readOnly: true });
    try {
      return Number(database.prepare(text).get()?.traces);
    } finally {
      database.close();
    }
  }

  async restart(signal: NodeJS.Signals): Promise<void> {
    await this.#both(async (daemon) => {
      await daemon.end(signal);
      await daemon.start();
    });
  }

  /** The object that both answer; undefined if both refuse the request. */
  async object(path: string): Promise<Tree | undefined> {
    const answer = await this.#compare({ path });
    return answer === undefined ? undefined : record(JSON.parse(answer));
  }

  /** Compares answers whose lines are JSON or text. */
  async lines(path: string): Promise<number> {
    const answer = await this.#compare({ path });
    return answer === undefined ? 0 : answer.split('\n').length;
  }

  /** `ignored`: members of any depth that have ids of the store. */
  async posted(path: string, body: Tree, ignored: readonly string[]): Promise<void> {
    const headers = { 'content-type': 'application/json' };
    await this.#compare({ method: 'POST', path, headers, body: JSON.stringify(body) }, ignored);
  }

  /** Erases the traces of a query; resolves with the number of them. */
  async erase(query: string): Promise<unknown> {
    const [one, other] = await this.#both(async (daemon) => {
      // A query that begins with a hyphen would be an option without the space.
      const run = await daemon.cli('erase', '--yes', '--json', ` ${query}`);
      if (run.code !== 0) throw new Error(`erase ${query}: ${run.stderr}`);
      const { state, traces, observations } = record(JSON.parse(run.stdout));
      return { state, traces, observations };
    });
    this.#differ(`erase ${query}`, one, other, []);
    return one.traces;
  }

  async #compare(
    call: Parameters<Daemon['call']>[0],
    ignored: readonly string[] = [],
  ): Promise<string | undefined> {
    const answers = await this.#both((daemon) => daemon.call({ ...call, timeoutMs: 60_000 }));
    const [one, other] = answers;
    const name = `${decodeURIComponent(call.path)} ${String(call.body ?? '')}`;
    if (one.status !== other.status || one.status >= 500) {
      this.report(`${name}: ${one.status} ${one.body} and ${other.status} ${other.body}`);
      return undefined;
    }
    this.#differ(name, parsed(one), parsed(other), ignored);
    if (one.status >= 400) return undefined;
    this.compared += 1;
    return one.body.toString();
  }

  #differ(name: string, one: unknown, other: unknown, ignored: readonly string[]): void {
    const names = new Set([...OF_A_STORE, ...ignored]);
    const masked = [one, other].map((value) => maskedValue(value, names, this.begun));
    const found = difference(masked[0], masked[1]);
    if (found !== undefined) this.report(`${found} in ${name}`);
  }

  async #both<T>(work: (daemon: Daemon) => Promise<T>): Promise<readonly [T, T]> {
    const [sqlite, postgres] = this.daemons;
    return Promise.all([work(sqlite), work(postgres)]);
  }
}

type Teardown = Parameters<typeof startDaemon>[0];

/** Without quotas, with costs and payload search, and with pages that end at their limit only. */
export async function startTwins(t: Teardown, server: PostgresServer): Promise<Twins> {
  const begun = Date.now();
  const onServer = await onPostgres(server);
  const daemons = await Promise.all([
    startDaemon(t, { edit: (config) => configure(config, 'sqlite') }),
    startDaemon(t, {
      edit(config) {
        onServer.edit?.(config);
        configure(config, 'postgres');
      },
    }),
  ]);
  return new Twins(daemons, onServer.url, begun);
}

function configure(config: Tree, store: string): void {
  treeAt(config, 'extensions', store).search = { payloads: '4KiB' };
  const processors = treeAt(config, 'processors');
  delete processors.quotas;
  processors.cost = { store };
  const accept = treeAt(config, 'service', 'pipelines', 'traces/accept');
  accept.processors = ['auth', 'validation', 'custom_fields'];
  treeAt(config, 'service', 'pipelines', 'traces/store').processors = ['normalization', 'cost'];
  treeAt(config, 'service').limits = { page_time: '30s', page_timeout: '60s' };
}

/** Members with ids that a store makes, or with places in its tables. */
const OF_A_STORE = ['project_id', 'key_id', 'raw_event_ids', 'next_cursor'];

function parsed({ headers, body }: Answer): unknown {
  const text = body.toString();
  if (/^application\/json/.test(headers['content-type'] ?? '')) return JSON.parse(text);
  return text.split('\n').map((line) => (line.startsWith('{') ? JSON.parse(line) : line));
}

const TIMES = /\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)?|\b\d{8}T\d{12}Z|^\d{19}$/g;

/** Without members with a listed name, and with `arrival` in place of each time since the test began: no drawn time is later. */
function maskedValue(value: unknown, names: ReadonlySet<string>, begun: number): unknown {
  if (typeof value === 'string') {
    return value.replace(TIMES, (time) => (msOf(time) >= begun ? 'arrival' : time));
  }
  if (Array.isArray(value)) return value.map((one) => maskedValue(one, names, begun));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([name]) => !names.has(name));
  return Object.fromEntries(members.map(([name, one]) => [name, maskedValue(one, names, begun)]));
}

/** Of a time in ISO 8601, in the order of runs (`20260102T030405000000Z`), or in nanoseconds. */
function msOf(time: string): number {
  if (/^\d{19}$/.test(time)) return Number(BigInt(time) / 1_000_000n);
  const run = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})/.exec(time);
  if (run === null) return Date.parse(/Z|\+/.test(time) ? time : `${time}Z`);
  const [, year, month, day, hour, minute, second, ms] = run;
  return Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}.${ms}Z`);
}

/** The place of the first difference of two JSON values, and both values. */
export function difference(one: unknown, other: unknown, place = ''): string | undefined {
  if (one === other) return undefined;
  if (typeof one === 'number' && typeof other === 'number' && isAbout(one, other)) return undefined;
  if (isObject(one) && isObject(other) && Array.isArray(one) === Array.isArray(other)) {
    const [first, second]: [Tree, Tree] = [{ ...one }, { ...other }];
    for (const name of new Set([...Object.keys(first), ...Object.keys(second)])) {
      const found = difference(first[name], second[name], `${place}.${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  return `${place}: ${shown(one)} and ${shown(other)}`;
}

/** Sums of floating-point numbers depend on the order of the summands. */
export function isAbout(one: number, other: number): boolean {
  return Math.abs(one - other) <= 1e-9 * Math.max(Math.abs(one), Math.abs(other), 1e-6);
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

const shown = (value: unknown): string => JSON.stringify(value)?.slice(0, 200) ?? 'absent';
