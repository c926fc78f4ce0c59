import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { restartWith } from '../../src/cli/process-memory.ts';
import { runCli } from '../../src/cli/program.ts';
import { escapeControlsInText } from '../../src/telemetry/control-characters.ts';
import { daemonEntry } from '../helper/daemon-bundle.ts';
import { freePorts } from '../helper/free-ports.ts';
import { PLAIN } from '../helper/plain-process.ts';
import { endingWithThis } from '../helper/server-binaries.ts';
import { type Answer, type Call, oneRequestEach, send } from './client.ts';

/** The sources of the daemon, which runs from the package's bundles where they are built. */
export const SOURCE_ENTRY = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const START_MS = 60_000;
const STOP_MS = 30_000;
/** Commands that run in a process of their own: they serve, write bytes to stdout, or open files that a test damages. */
const OF_A_PROCESS = new Set(['run', 'export', 'salvage']);

export type DaemonOptions = {
  /** Merged over `connectors.disk_queue`. */
  readonly queue?: Readonly<Record<string, unknown>>;
  /** Merged over the whole configuration, objects deeply. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Changes the whole configuration, e.g. to leave something out. */
  readonly edit?: (config: Tree) => void;
  readonly env?: Readonly<Record<string, string>>;
  /** The module to start; the default is the bundled daemon. */
  readonly entry?: string;
  /** The most file descriptors of the process. */
  readonly openFiles?: number;
};

export type Tree = { [key: string]: unknown };

type Exit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

type Run = {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
};

/** The real daemon as a child process, used from outside only. */
export type Daemon = {
  /** `http://127.0.0.1:port` of the ingestion listener. */
  readonly base: string;
  readonly health: string;
  readonly metricsBase: string;
  readonly adminBase: string;
  readonly directory: string;
  readonly configPath: string;
  /** The key that the first start printed. */
  readonly key: string;
  pid(): number;
  running(): boolean;
  /** The output of the running process, or of the last one. */
  stdout(): string;
  stderr(): string;
  start(): Promise<void>;
  /** Sends a signal and waits for the end. */
  end(signal: NodeJS.Signals): Promise<Exit>;
  /** Runs another command of the CLI with this configuration, most of them in the process of the test. */
  cli(...args: string[]): Promise<Run>;
  createKey(...args: string[]): Promise<{ id: string; token: string }>;
  /** A request with the first key, unless headers say otherwise. */
  call(call: Call): Promise<Answer>;
  metrics(): Promise<Sample[]>;
  /** Resident memory of the process in bytes. */
  rss(): number;
  /** Ends the process if it runs and removes all its files. */
  remove(): Promise<void>;
};

/** One line of the metrics page. */
export type Sample = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
};

/** The part of a test that registers clean-up. */
type Teardown = { teardown(clean: () => Promise<void> | void): void };

/** Starts a daemon with the embedded pipelines, and removes it at the end of the test. */
export async function startDaemon(t: Teardown, options: DaemonOptions = {}): Promise<Daemon> {
  const daemon = await prepareDaemon(options);
  t.teardown(() => daemon.remove());
  await daemon.start();
  return daemon;
}

/** Writes the configuration of a daemon without starting it. */
export async function prepareDaemon(options: DaemonOptions = {}): Promise<Daemon> {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-e2e-'));
  const [ingest = 0, health = 0, metrics = 0, admin = 0] = await freePorts(4);
  const ports = { ingest, health, metrics, admin };
  const config = embedded(join(directory, 'data'), ports, options);
  const configPath = join(directory, 'tracectl.yaml');
  // JSON is YAML, so a test can read the file back.
  writeFileSync(configPath, JSON.stringify(config, null, 2));
  return new ChildDaemon(directory, configPath, ports, options);
}

type Ports = {
  readonly ingest: number;
  readonly health: number;
  readonly metrics: number;
  readonly admin: number;
};

const OUTPUT_PIPED: ['ignore', 'pipe', 'pipe'] = ['ignore', 'pipe', 'pipe'];

class ChildDaemon implements Daemon {
  readonly base: string;
  readonly health: string;
  readonly metricsBase: string;
  readonly adminBase: string;
  readonly directory: string;
  readonly configPath: string;
  readonly #env: Readonly<Record<string, string>>;
  readonly #entry: string;
  readonly #openFiles: number | undefined;
  #key = '';
  #child: ChildProcess | undefined;
  #exit: Promise<Exit> | undefined;
  #stdout = '';
  #stderr = '';

  constructor(
    directory: string,
    configPath: string,
    { ingest, health, metrics, admin }: Ports,
    { env = {}, entry = daemonEntry(), openFiles }: DaemonOptions,
  ) {
    this.directory = directory;
    this.configPath = configPath;
    this.base = `http://127.0.0.1:${ingest}`;
    this.health = `http://127.0.0.1:${health}`;
    this.metricsBase = `http://127.0.0.1:${metrics}`;
    this.adminBase = `http://127.0.0.1:${admin}`;
    this.#env = env;
    this.#entry = entry;
    this.#openFiles = openFiles;
  }

  get key(): string {
    return this.#key;
  }

  pid(): number {
    return this.#child?.pid ?? 0;
  }

  running(): boolean {
    const child = this.#child;
    return child !== undefined && child.exitCode === null && child.signalCode === null;
  }

  stdout(): string {
    return this.#stdout;
  }

  stderr(): string {
    return this.#stderr;
  }

  async start(): Promise<void> {
    this.#stdout = '';
    this.#stderr = '';
    const child = this.#spawn(['run', '--print-key', '--config', this.configPath]);
    this.#child = child;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    // Kills the daemon when the test process ends before its teardown.
    const reap = () => child.kill('SIGKILL');
    process.once('exit', reap);
    this.#exit = new Promise((resolve) =>
      child.once('close', (code, signal) => {
        process.removeListener('exit', reap);
        resolve({ code, signal });
      }),
    );
    await this.#ready();
    const printed = /\bws_[0-9A-Za-z]{20,}/.exec(this.#stdout)?.[0];
    if (printed !== undefined) this.#key = printed;
  }

  /**
   * With the settings of memory for which the daemon would replace its process, at the cost of another start of Node. The sources replace
   * theirs.
   */
  #spawn(args: readonly string[]): ChildProcessByStdio<null, Readable, Readable> {
    const argv = [process.execPath, this.#entry, ...args];
    const plain = { execArgv: [], env: { ...process.env, ...PLAIN, ...this.#env } };
    const { platform } = process;
    const isBundle = this.#entry !== SOURCE_ENTRY;
    const restart = isBundle ? restartWith({ ...plain, argv, platform }) : undefined;
    const { execArgv, env } = restart ?? plain;
    const command = [process.execPath, ...execArgv, this.#entry, ...args];
    const limit = `ulimit -n ${this.#openFiles} && exec "$0" "$@"`;
    const limited = this.#openFiles === undefined ? command : ['/bin/sh', '-c', limit, ...command];
    // tap kills a test file at its time-out, which runs no clean-up.
    const [file = '', ...all] = endingWithThis(limited);
    return spawn(file, all, { cwd: this.directory, env, stdio: OUTPUT_PIPED });
  }

  async #ready(): Promise<void> {
    const end = Date.now() + START_MS;
    while (this.running()) {
      const status = await send(this.health, { path: '/readyz', timeoutMs: 2_000 }).then(
        (answer) => answer.status,
        () => 0,
      );
      // The welcome text, with the key of a new store, follows the readiness.
      if (status === 200 && this.#stdout !== '') return;
      if (Date.now() > end) break;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const how = this.running() ? 'is not ready' : 'ended';
    throw new Error(
      `the daemon ${how}:\n${this.#stderr.slice(-4_000)}${this.#stdout.slice(-1_000)}`,
    );
  }

  async end(signal: NodeJS.Signals): Promise<Exit> {
    const [child, exit] = [this.#child, this.#exit];
    if (child === undefined || exit === undefined) return { code: null, signal: null };
    if (this.running()) child.kill(signal);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        child.kill('SIGKILL');
        reject(new Error(`the daemon did not end within ${STOP_MS} ms after ${signal}`));
      }, STOP_MS);
    });
    try {
      return await Promise.race([exit, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async cli(...args: string[]): Promise<Run> {
    if (OF_A_PROCESS.has(args[0] ?? '')) return await this.#process(args);
    const [out, err]: [string[], string[]] = [[], []];
    const code = await runCli([...args, '--config', this.configPath], {
      cwd: this.directory,
      env: { ...process.env, ...this.#env },
      out: (line) => out.push(`${escapeControlsInText(line)}\n`),
      err: (line) => err.push(`${escapeControlsInText(line)}\n`),
    });
    return { code, stdout: out.join(''), stderr: err.join('') };
  }

  #process(args: readonly string[]): Promise<Run> {
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [this.#entry, ...args, '--config', this.configPath], {
        cwd: this.directory,
        env: { ...process.env, ...PLAIN, ...this.#env },
        stdio: OUTPUT_PIPED,
      });
      let stdout = '';
      let stderr = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        stdout += text;
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        stderr += text;
      });
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      child.once('error', reject);
      child.once('close', (code) => {
        clearTimeout(timer);
        resolve({ code, stdout, stderr });
      });
    });
  }

  async createKey(...args: string[]): Promise<{ id: string; token: string }> {
    const run = await this.cli('keys', 'create', '--json', ...args);
    if (run.code !== 0) throw new Error(`keys create: ${run.stderr}${run.stdout}`);
    return JSON.parse(run.stdout) as { id: string; token: string };
  }

  call(call: Call): Promise<Answer> {
    const headers = { authorization: `Bearer ${this.#key}`, ...call.headers };
    return send(this.base, { ...call, headers });
  }

  async metrics(): Promise<Sample[]> {
    const answer = await send(this.metricsBase, { path: '/metrics', agent: oneRequestEach });
    return answer.body.toString('utf8').split('\n').flatMap(parseSample);
  }

  rss(): number {
    const status = readFileSync(`/proc/${this.pid()}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
  }

  async remove(): Promise<void> {
    if (this.running()) await this.end('SIGKILL');
    if (existsSync(this.directory)) rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Sum over the samples with this name and these labels. */
export function total(samples: readonly Sample[], name: string, labels: Tree = {}): number {
  return samples
    .filter(
      (sample) =>
        sample.name === name && Object.entries(labels).every(([k, v]) => sample.labels[k] === v),
    )
    .reduce((sum, sample) => sum + sample.value, 0);
}

function parseSample(line: string): Sample[] {
  const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$/.exec(line);
  if (match === null) return [];
  const labels: Record<string, string> = {};
  for (const [, key = '', value = ''] of (match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[key] = value;
  }
  return [{ name: match[1] ?? '', labels, value: Number(match[3]) }];
}

/** The embedded shape: receive → queue in the store → normalize → the store. */
function embedded(
  data: string,
  { ingest, health, metrics, admin }: Ports,
  options: DaemonOptions,
): Tree {
  const endpoint = `127.0.0.1:${ingest}`;
  const config: Tree = {
    extensions: {
      // The default reserve takes a tenth of a start, and the disk from the other tests.
      sqlite: { directory: data, reserve_bytes: '1MiB' },
      admin: { endpoint: `127.0.0.1:${admin}`, store: 'sqlite' },
      health_check: { endpoint: `127.0.0.1:${health}` },
    },
    receivers: {
      native: { endpoint },
      runs: { endpoint },
      otlp: { protocols: { http: { endpoint } } },
    },
    processors: {
      auth: { store: 'sqlite' },
      validation: {},
      custom_fields: {},
      quotas: { store: 'sqlite' },
      normalization: {},
    },
    connectors: { disk_queue: { store: 'sqlite', ...options.queue } },
    exporters: { sqlite: { store: 'sqlite' } },
    service: {
      extensions: ['sqlite', 'admin', 'health_check'],
      pipelines: {
        'traces/accept': {
          receivers: ['native', 'runs', 'otlp'],
          processors: ['auth', 'validation', 'custom_fields', 'quotas'],
          exporters: ['disk_queue'],
        },
        'traces/store': {
          receivers: ['disk_queue'],
          processors: ['normalization'],
          exporters: ['sqlite'],
        },
      },
      telemetry: { metrics: { address: `127.0.0.1:${metrics}` } },
    },
  };
  merge(config, options.config ?? {});
  options.edit?.(config);
  return config;
}

function merge(target: Tree, more: Readonly<Record<string, unknown>>): void {
  for (const [key, value] of Object.entries(more)) {
    const old = target[key];
    if (isTree(old) && isTree(value)) merge(old, value);
    else target[key] = value;
  }
}

function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
