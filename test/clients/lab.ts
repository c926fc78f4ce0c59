import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { json, list, record } from '../e2e/client.ts';
import { type Daemon, prepareDaemon, type Sample, total } from '../e2e/daemon.ts';
import { freePorts } from '../helper/free-ports.ts';
import { PLAIN } from '../helper/plain-process.ts';
import { run } from '../interop/toolchain.ts';
import type { ClientCase } from './client-case.ts';
import { differences, type Found } from './compare.ts';
import { type ModelServer, startModelServer } from './model-server.ts';
import { programOf } from './page.ts';
import { ANSWER, NOT_FOUND } from './plot.ts';
import type { PrintedCase } from './printed-cases.ts';

/** How a language runs a program. */
export type Runtime = {
  readonly file: string;
  readonly command: string;
  /** Packages of Node, which the program finds beside it. */
  readonly modules?: string;
  /** A directory of programs. They see no variables of this process, and have a home directory of their own. */
  readonly programs?: string;
};

/** Of a slow machine that starts several programs. */
const PROGRAM_MS = 120_000;
const ARRIVAL_MS = 30_000;

/** Starts a service between the program and the daemon, and returns its address. */
export type Front = (base: string, key: string) => Promise<string>;

/** One daemon and one model server for the programs of all pages. Each program has a project of its own. */
export class Lab {
  readonly #daemon: Daemon;
  readonly #models: ModelServer;
  readonly #grpcPort: string;
  #cases = 0;

  private constructor(daemon: Daemon, models: ModelServer, grpcPort: string) {
    this.#daemon = daemon;
    this.#models = models;
    this.#grpcPort = grpcPort;
  }

  /** `sqlite` is merged over the settings of the store. */
  static async start(sqlite: Readonly<Record<string, unknown>> = {}): Promise<Lab> {
    const [port] = await freePorts(1);
    const endpoint = `127.0.0.1:${port}`;
    const receivers = { otlp: { protocols: { grpc: { endpoint } } } };
    const config = { receivers, extensions: { sqlite } };
    const daemon = await prepareDaemon({ config });
    await daemon.start();
    return new Lab(daemon, await startModelServer(), `${port}`);
  }

  async close(): Promise<void> {
    await this.#models.close();
    await this.#daemon.remove();
  }

  /** Runs the program of a page; returns the differences from the expected traces, and the output of the program. */
  async run(
    each: ClientCase,
    runtime: Runtime,
    front?: Front,
  ): Promise<{ found: Found[]; wrong: string[]; output: string }> {
    const key = await this.#keyOfNewProject(each);
    const before = await this.#daemon.metrics();
    const output = await this.#runProgram(each, runtime, key, front);
    const end = Date.now() + ARRIVAL_MS;
    for (;;) {
      const after = await this.#daemon.metrics();
      const found = await this.#tracesOf(key);
      const wrong = [
        ...complaints(output, each.prints),
        ...differences(found, each.traces),
        ...unreceived(each, before, after),
      ];
      if (wrong.length === 0 || Date.now() > end) return { found, wrong, output };
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** Runs a program of no page; returns the output of it and of its client, whether it fails or not. */
  async output({ name, settings, program }: PrintedCase, runtime: Runtime): Promise<string> {
    const key = await this.#keyOfNewProject({ page: 'printed', section: name });
    const command = `(${runtime.command} || true)`;
    return await this.#execute({ settings, program }, { ...runtime, command }, key);
  }

  async #keyOfNewProject({ page, section }: Pick<ClientCase, 'page' | 'section'>): Promise<string> {
    const made = await this.#daemon.cli('projects', 'create', `${page} ${section}`, '--json');
    if (made.code !== 0) throw new Error(`projects create: ${made.stderr}`);
    const { id } = record(JSON.parse(made.stdout));
    return (await this.#daemon.createKey('--project', String(id))).token;
  }

  async #runProgram(
    each: ClientCase,
    runtime: Runtime,
    key: string,
    front?: Front,
  ): Promise<string> {
    const base = (await front?.(this.#daemon.base, key)) ?? this.#daemon.base;
    const { settings, program } = programOf(each);
    if (!/127\.0\.0\.1:431[78]/.test(settings + program)) throw new Error('no address in a page');
    const all = `${each.prelude ?? ''}\n${settings}`;
    return await this.#execute({ settings: all, program }, runtime, key, base);
  }

  async #execute(
    { settings, program }: { readonly settings: string; readonly program: string },
    runtime: Runtime,
    key: string,
    base = this.#daemon.base,
  ): Promise<string> {
    const place = join(this.#daemon.directory, `case-${++this.#cases}`);
    mkdirSync(place);
    if (runtime.modules !== undefined) symlinkSync(runtime.modules, join(place, 'node_modules'));
    writeFileSync(join(place, runtime.file), this.#withAddresses(program, base));
    writeFileSync(join(place, 'settings.sh'), this.#withAddresses(settings, base));
    const shell = [
      'sh',
      '-euc',
      `. ./settings.sh; ${runtime.command} >output 2>&1 || (cat output >&2; exit 1); cat output`,
    ];
    const variables = {
      KEY: key,
      OPENAI_BASE_URL: this.#models.url,
      OPENAI_API_KEY: 'sk-test',
      ANTHROPIC_BASE_URL: new URL(this.#models.url).origin,
      ANTHROPIC_API_KEY: 'sk-ant-test',
    };
    const options = { cwd: place, ms: PROGRAM_MS };
    if (runtime.programs === undefined) {
      return await run('env', shell, { ...options, env: { ...PLAIN, ...variables } });
    }
    const path = `${runtime.programs}:${process.env.PATH ?? ''}`;
    const own = Object.entries({ ...variables, HOME: place, PATH: path });
    return await run('env', ['-i', ...own.map((pair) => pair.join('=')), ...shell], options);
  }

  /** Replaces the default addresses of a page. */
  #withAddresses(text: string, base: string): string {
    const withHttp = text.replaceAll('127.0.0.1:4318', new URL(base).host);
    return withHttp.replaceAll(/\b4317\b/g, this.#grpcPort);
  }

  async #tracesOf(key: string): Promise<Found[]> {
    const get = async (path: string) =>
      record(json(await this.#daemon.call({ path, headers: { authorization: `Bearer ${key}` } })));
    const traces = list((await get('/api/v1/traces?limit=100')).traces).map(record);
    return await Promise.all(
      traces.map(async ({ id }) => {
        const path = `/api/v1/traces/${encodeURIComponent(String(id))}?payloads=true`;
        const { trace, observations } = await get(path);
        return { trace: record(trace), observations: list(observations).map(record) };
      }),
    );
  }
}

/** Receivers that accepted no item of the program, and items that are still on their way into the store. */
function unreceived(
  { receivers = [] }: ClientCase,
  before: readonly Sample[],
  after: readonly Sample[],
): string[] {
  const accepted = (samples: readonly Sample[], receiver: string) =>
    total(samples, 'tracectl_receiver_accepted_items_total', { receiver });
  const silent = receivers.filter((name) => accepted(after, name) === accepted(before, name));
  return [
    ...silent.map((receiver) => `the receiver ${receiver} accepted nothing`),
    ...(total(after, 'tracectl_queue_entries') > 0 ? ['the queue is not empty'] : []),
  ];
}

/** The lines that neither the program nor its client always prints: warnings. */
function complaints(output: string, prints: RegExp = /^$/): string[] {
  return output
    .split('\n')
    .filter(
      (line) =>
        !prints.test(line) && line !== '' && !line.includes(ANSWER) && !NOT_FOUND.test(line),
    )
    .map((line) => `the program printed: ${line}`);
}
