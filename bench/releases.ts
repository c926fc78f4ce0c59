import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { parse, stringify } from 'yaml';
import type { Tree } from '../test/e2e/daemon.ts';
import { encodeTraces } from '../test/e2e/otlp-messages.ts';
import { freePorts } from '../test/helper/free-ports.ts';
import { Load } from './load.ts';
import { median } from './median.ts';
import { type Payload, wireRequest } from './payloads.ts';
import { threadMicros } from './process-cost.ts';
import { BODY_HEADERS, bodyOf, requestOf, SPANS_A_BODY } from './reading/data.ts';
import { fileBytes } from './reading/store.ts';

/**
 * Prints the CPU from the socket to the readable row, and the bytes on disk, of this tree and of another one in turns:
 *   node bench/releases.ts OTHER [--only REGEX] [--requests N] [--turns N]
 * OTHER: a checkout of another release with its modules. Each tree runs its own config/embedded.yaml without quotas, so that no
 * request is refused.
 */
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: 'string', default: '.' },
    requests: { type: 'string', default: '300' },
    turns: { type: 'string', default: '2' },
  },
});
const OTHER = resolve(positionals[0] ?? '.');
const THIS = fileURLToPath(new URL('..', import.meta.url));
const REQUESTS = Number(flags.requests);
const CONNECTIONS = 8;
/** The first rounds warm up. */
const [WARM_UP, ROUNDS] = [3, 3];
/** Texts of this length make 2.3 KB a span. */
const LENGTH = 2.5;

type Kind = Pick<Payload, 'name' | 'path' | 'headers'> & { next(number: number): Buffer };

const now = Date.now();
const share = (number: number) => 1 - number / 1e6;
const KINDS: readonly Kind[] = [
  {
    name: 'protobuf, 2.3 KB a span',
    path: '/api/public/otel/v1/traces',
    headers: { 'content-type': 'application/x-protobuf' },
    next: (number) => Buffer.from(encodeTraces(requestOf(number, share(number), now, LENGTH))),
  },
  {
    name: 'JSON with gzip, 1.5 KB a span',
    path: '/api/public/otel/v1/traces',
    headers: BODY_HEADERS,
    next: (number) => bodyOf(number, share(number), now),
  },
];

type Release = {
  readonly pid: number;
  readonly port: number;
  readonly key: string;
  readonly directory: string;
  end(): Promise<void>;
  remove(): void;
};

const CONFIG = 'config/embedded.yaml';

async function start(tree: string): Promise<Release> {
  const home = mkdtempSync(join(tmpdir(), 'tracectl-release-'));
  const directory = join(home, 'data');
  const [port = 0, ...ports] = await freePorts(5);
  const config = join(home, 'config.yaml');
  writeFileSync(config, stringify(edited(tree, directory, port, ports)));
  const args = [join(tree, 'src/main.ts'), 'run', '--config', config];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const key = await keyOf(child);
  return {
    ...{ pid: child.pid ?? 0, port, key, directory },
    end: async () => {
      child.kill('SIGTERM');
      await new Promise((ended) => child.once('exit', ended));
    },
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}

/** The configuration of a tree, at free ports. */
function edited(tree: string, directory: string, port: number, ports: number[]): Tree {
  const config = parse(
    readFileSync(join(tree, CONFIG), 'utf8').replaceAll('127.0.0.1:4318', `127.0.0.1:${port}`),
  ) as Record<string, Record<string, Tree>>;
  const { extensions, receivers, processors, connectors, service } = config;
  const address = () => `127.0.0.1:${ports.pop()}`;
  Object.assign(extensions?.sqlite ?? {}, { directory });
  Object.assign(extensions?.admin ?? {}, { endpoint: address() });
  Object.assign(extensions?.health_check ?? {}, { endpoint: address() });
  const protocols = receivers?.otlp?.protocols as Tree;
  if (protocols.grpc !== undefined) protocols.grpc = { endpoint: address() };
  delete processors?.quotas;
  delete connectors?.disk_queue?.max_backlog_age;
  const accept = service?.pipelines?.['traces/accept'] as { processors: string[] };
  accept.processors = accept.processors.filter((name) => name !== 'quotas');
  Object.assign(service ?? {}, { telemetry: { metrics: { address: address() } } });
  return config;
}

const KEY = /ws_\w{20,}/;

/** The key that the first start prints, or the key in the file that it names. */
function keyOf(child: ChildProcess): Promise<string> {
  let output = '';
  return new Promise((resolve, reject) => {
    const read = (chunk: Buffer) => {
      output += chunk.toString();
      const file = /^ {2}(\/\S+)$/m.exec(output)?.[1];
      const key = KEY.exec(file === undefined ? output : readFileSync(file, 'utf8'))?.[0];
      if (key !== undefined) resolve(key);
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.once('exit', () => reject(new Error(`the daemon ended: ${output}`)));
  });
}

const QUIET_MS = 500;
/** A daemon that takes less CPU in so long has no work. */
const QUIET_MICROS = 12_000;

/** The CPU by thread, after the daemon has stored everything and has added it to its sums, which it does every two seconds. */
async function settled(pid: number): Promise<Map<string, number>> {
  for (let quiet = 0, last = sumOf(threadMicros(pid)); ; ) {
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
    const micros = threadMicros(pid);
    quiet = sumOf(micros) - last < QUIET_MICROS ? quiet + 1 : 0;
    last = sumOf(micros);
    if (quiet === 5) return micros;
  }
}

function sumOf(micros: ReadonlyMap<string, number>): number {
  return [...micros.values()].reduce((sum, each) => sum + each, 0);
}

type Turn = {
  /** Microseconds of CPU a span, of each round behind the warm-up. */
  readonly rounds: readonly number[];
  /** Of the last round. */
  readonly threads: ReadonlyMap<string, number>;
  /** On disk, after the daemon ended. */
  readonly bytes: number;
};

async function turnOf(tree: string, kind: Kind): Promise<Turn> {
  const release = await start(tree);
  const load = await Load.open(release.port, CONNECTIONS);
  const rounds: number[] = [];
  const spans = REQUESTS * SPANS_A_BODY;
  let number = 0;
  let threads = new Map<string, number>();
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    const requests = Array.from({ length: REQUESTS }, () =>
      wireRequest(kind, kind.next(++number), release.key),
    );
    const before = threadMicros(release.pid);
    await load.run(requests);
    const after = await settled(release.pid);
    threads = new Map(
      [...after].map(([name, micros]) => [name, (micros - (before.get(name) ?? 0)) / spans]),
    );
    if (round >= WARM_UP) rounds.push(sumOf(threads));
  }
  load.close();
  await release.end();
  const bytes = fileBytes(release.directory) / (number * SPANS_A_BODY);
  release.remove();
  return { rounds, threads, bytes };
}

function shown(tree: string, { rounds, threads, bytes }: Turn): string {
  const parts = [...threads].filter(([, micros]) => micros >= 0.1);
  const each = parts.map(([name, micros]) => `${name} ${micros.toFixed(1)}`).join(', ');
  const costs = rounds.map((cost) => cost.toFixed(1)).join(', ');
  return `  ${tree}: ${costs} µs a span (${each}); ${bytes.toFixed(0)} bytes a span`;
}

const chosen = KINDS.filter(({ name }) => new RegExp(flags.only).test(name));
if (chosen.length === 0) {
  const names = KINDS.map(({ name }) => `\n  ${name}`).join('');
  process.stderr.write(`--only ${flags.only} matches none of:${names}\n`);
  process.exit(1);
}
for (const kind of chosen) {
  process.stdout.write(`${kind.name}\n`);
  const costs: Record<'other' | 'own', number[]> = { other: [], own: [] };
  for (let turn = 0; turn < Number(flags.turns); turn++) {
    const [other, own] = [await turnOf(OTHER, kind), await turnOf(THIS, kind)];
    process.stdout.write(`${shown('other', other)}\n${shown('this', own)}\n`);
    costs.other.push(...other.rounds);
    costs.own.push(...own.rounds);
  }
  const ratio = median(costs.own) / median(costs.other);
  process.stdout.write(`  ratio of CPU, medians: ${ratio.toFixed(2)}\n`);
}
