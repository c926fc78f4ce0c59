import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { send } from '../e2e/client.ts';
import { freePorts } from '../helper/free-ports.ts';

/** A process: tracectl or the OpenTelemetry Collector. */
export type Peer = {
  readonly name: string;
  pid(): number;
  start(): Promise<void>;
  end(signal: NodeJS.Signals): Promise<void>;
  /** The end of its output. */
  output(): string;
};

export type PeerConfig = { [key: string]: unknown };

const START_MS = 20_000;
const STOP_MS = 20_000;
const MAX_OUTPUT = 64 * 1024;
const ENTRY = fileURLToPath(new URL('../../src/main.ts', import.meta.url));

/** Every started process whose end is not known. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** The Collector with this configuration and a health check, in this directory. */
export async function collector(
  binary: string,
  name: string,
  directory: string,
  config: PeerConfig,
): Promise<Peer> {
  const health = await healthPort();
  const path = writeConfig(name, directory, withHealth(config, health));
  return new ChildPeer(name, binary, ['--config', path], directory, `http://127.0.0.1:${health}/`);
}

/** tracectl, from its sources unless another entry is given. */
export async function tracectl(
  name: string,
  directory: string,
  config: PeerConfig,
  entry = ENTRY,
): Promise<Peer & { readonly configPath: string }> {
  const health = await healthPort();
  const path = writeConfig(name, directory, withHealth(config, health));
  // Readiness depends on destinations, and liveness comes before the listeners, which the log reports.
  const ready = `http://127.0.0.1:${health}/livez`;
  const args = [entry, 'run', '--config', path];
  const peer = new ChildPeer(name, process.execPath, args, directory, ready, 'is running.');
  return Object.assign(peer, { configPath: path });
}

async function healthPort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

function withHealth(config: PeerConfig, port: number): PeerConfig {
  const copy = structuredClone(config) as Record<string, Record<string, unknown>>;
  const service = copy.service ?? {};
  const extensions = (service.extensions as string[] | undefined) ?? [];
  service.extensions = [...extensions.filter((id) => id !== 'health_check'), 'health_check'];
  copy.extensions = { ...copy.extensions, health_check: { endpoint: `127.0.0.1:${port}` } };
  return copy;
}

/** JSON is YAML. */
function writeConfig(name: string, directory: string, config: PeerConfig): string {
  mkdirSync(directory, { recursive: true });
  const path = join(directory, `${name}.yaml`);
  writeFileSync(path, JSON.stringify(config, null, 2));
  return path;
}

class ChildPeer implements Peer {
  readonly name: string;
  readonly #program: string;
  readonly #args: readonly string[];
  readonly #directory: string;
  readonly #ready: string;
  /** Text in the output of a process that listens. */
  readonly #says: string;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #output = '';

  constructor(
    name: string,
    program: string,
    args: readonly string[],
    directory: string,
    ready: string,
    says = '',
  ) {
    this.name = name;
    this.#program = program;
    this.#args = args;
    this.#directory = directory;
    this.#ready = ready;
    this.#says = says;
  }

  pid(): number {
    return this.#child?.pid ?? 0;
  }

  output(): string {
    return this.#output;
  }

  async start(): Promise<void> {
    const child = spawn(this.#program, this.#args, {
      cwd: this.#directory,
      env: { ...process.env, NODE_OPTIONS: '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    this.#output = '';
    running.add(child);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#output = (this.#output + text).slice(-MAX_OUTPUT);
      });
    }
    this.#ended = new Promise((resolve) => {
      child.once('error', () => resolve());
      child.once('close', () => {
        running.delete(child);
        resolve();
      });
    });
    await this.#isReady(child);
  }

  async #isReady(child: ChildProcess): Promise<void> {
    const end = Date.now() + START_MS;
    const { origin, pathname } = new URL(this.#ready);
    while (child.exitCode === null && child.signalCode === null && Date.now() < end) {
      const status = await send(origin, { path: pathname, timeoutMs: 2000 }).then(
        (answer) => answer.status,
        () => 0,
      );
      if (status === 200 && this.#output.includes(this.#says)) return;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
    throw new Error(`${this.name} did not start: ${this.#output.slice(-4000)}`);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await this.#ended;
    clearTimeout(timer);
  }
}
