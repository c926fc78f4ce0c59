import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The Collector, built by its own builder, and its load generator. A build is kept in the user's cache directory,
 * under a key of its inputs.
 */
export type Toolchain = { readonly collector: string; readonly telemetrygen: string };

/** The reason why a tool is not available. */
export type Missing = { readonly missing: string };

const MANIFEST = fileURLToPath(new URL('./collector-builder.yaml', import.meta.url));
const REQUIREMENTS = fileURLToPath(new URL('./requirements.txt', import.meta.url));
const BUILDER = 'go.opentelemetry.io/collector/cmd/builder@v0.159.0';
const TELEMETRYGEN =
  'github.com/open-telemetry/opentelemetry-collector-contrib/cmd/telemetrygen@v0.160.0';
/** The version that the modules need. */
const MIN_GO = [1, 25] as const;

const PROBE_MS = 30_000;
/** For all builds together, which take about three minutes on two cores. */
const BUILD_MS = 420_000;
const PYTHON_MS = 120_000;

/** Finds the tools, or builds them. */
export async function findToolchain(say: (text: string) => void): Promise<Toolchain | Missing> {
  const directory = join(cacheDirectory(), keyOf(MANIFEST, BUILDER, TELEMETRYGEN));
  const found = {
    collector: join(directory, 'otelcol'),
    telemetrygen: join(directory, 'telemetrygen'),
  };
  if (existsSync(found.collector) && existsSync(found.telemetrygen)) return found;
  const missing = await probe();
  if (missing !== undefined) return { missing };
  const end = Date.now() + BUILD_MS;
  const left = () => Math.max(1, end - Date.now());
  const work = mkdtempSync(join(tmpdir(), 'tracectl-interop-build-'));
  try {
    const bin = join(work, 'bin');
    say('building telemetrygen');
    await run('go', ['install', TELEMETRYGEN], { cwd: work, env: { GOBIN: bin }, ms: left() });
    say("building the Collector's builder");
    await run('go', ['install', BUILDER], { cwd: work, env: { GOBIN: bin }, ms: left() });
    say('building the Collector');
    cpSync(MANIFEST, join(work, 'builder.yaml'));
    const arguments_ = ['--config', join(work, 'builder.yaml')];
    await run(join(bin, 'builder'), arguments_, { cwd: work, ms: left() });
    const ready = join(work, 'ready');
    mkdirSync(ready);
    renameSync(join(work, 'otelcol', 'otelcol'), join(ready, 'otelcol'));
    renameSync(join(bin, 'telemetrygen'), join(ready, 'telemetrygen'));
    publish(ready, directory);
    return found;
  } catch (error) {
    return { missing: `the Collector could not be built: ${String(error)}` };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** A Python with the OpenTelemetry SDK. */
export async function findPython(say: (text: string) => void): Promise<string | Missing> {
  const directory = join(cacheDirectory(), `python-${keyOf(REQUIREMENTS)}`);
  const python = join(directory, 'bin', 'python');
  // Written last: an environment without it is incomplete.
  const done = join(directory, 'requirements.txt');
  if (existsSync(done)) return python;
  try {
    say('installing the OpenTelemetry SDK for Python');
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(cacheDirectory(), { recursive: true });
    await run('python3', ['-m', 'venv', directory], { ms: PYTHON_MS });
    const install = ['-m', 'pip', 'install', '--quiet', '--requirement', REQUIREMENTS];
    await run(python, install, { ms: PYTHON_MS });
    cpSync(REQUIREMENTS, done);
    return python;
  } catch (error) {
    return { missing: `no OpenTelemetry SDK for Python: ${String(error)}` };
  }
}

function cacheDirectory(): string {
  const base = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(base, 'tracectl-interop');
}

function keyOf(file: string, ...more: readonly string[]): string {
  const hash = createHash('sha256').update(readFileSync(file));
  for (const text of more) hash.update(`\n${text}`);
  return hash.digest('hex').slice(0, 16);
}

/** Concurrent builds are equal; the first one to finish stays. */
function publish(ready: string, directory: string): void {
  const beside = `${directory}.${process.pid}`;
  cpSync(ready, beside, { recursive: true });
  try {
    renameSync(beside, directory);
  } catch (error) {
    rmSync(beside, { recursive: true, force: true });
    if (!existsSync(join(directory, 'otelcol'))) throw error;
  }
}

/** The first missing requirement of a build; undefined if there is none. */
async function probe(): Promise<string | undefined> {
  let version: string;
  try {
    version = await run('go', ['env', 'GOVERSION'], { ms: PROBE_MS });
  } catch {
    return 'no Go toolchain';
  }
  const [, major, minor] = /go(\d+)\.(\d+)/.exec(version) ?? [];
  const isOld = Number(major) === MIN_GO[0] && Number(minor) < MIN_GO[1];
  if (major === undefined || isOld) {
    return `Go ${MIN_GO.join('.')} or later is needed, this is ${version.trim()}`;
  }
  try {
    await run('go', ['list', '-m', BUILDER], { cwd: tmpdir(), ms: PROBE_MS });
  } catch (error) {
    return `no Go module proxy: ${String(error)}`;
  }
  return undefined;
}

type RunOptions = {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The program is killed after this time. */
  readonly ms: number;
};

/** Runs a program to its end; rejects with the end of its output if it fails. */
export function run(
  program: string,
  args: readonly string[],
  options: RunOptions,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, {
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group, so that a time-out also ends the children of a compiler.
      detached: true,
    });
    let output = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-4000);
    });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    }, options.ms);
    child.once('error', (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.once('close', (code) => {
      clearTimeout(timer);
      if (code === 0) return resolve(output);
      const how = isLate ? `took longer than ${options.ms / 1000} s` : `ended with ${code}`;
      reject(new Error(`${program} ${args.join(' ')} ${how}: ${errors.trim().slice(-1500)}`));
    });
  });
}
