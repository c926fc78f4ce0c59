import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { daemonEntry } from '../helper/daemon-bundle.ts';
import { freePorts } from '../helper/free-ports.ts';
import { PLAIN } from '../helper/plain-process.ts';
import { postgresServer } from '../helper/postgres-server.ts';
import { redisServer } from '../helper/redis-server.ts';
import { eventually, send } from './client.ts';

/** Follows the last section of docs/gateways-and-workers.md, with every port moved by one offset. */

t.setTimeout(180_000);

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

type Env = Readonly<Record<string, string>>;
type Page = {
  readonly first: string;
  readonly second: string;
  readonly worker: string;
  readonly sends: string;
  readonly reads: string;
};

/** The commands of the section. */
function commandsOfPage(): Page {
  const page = readFileSync(join(ROOT, 'docs/gateways-and-workers.md'), 'utf8');
  const section = page.slice(page.indexOf('## Two gateways and a worker on one machine'));
  const blocks = [...section.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, block = '']) => block);
  const [, first = '', second = '', worker = '', , sends = '', reads = ''] = blocks;
  return { first, second, worker, sends, reads };
}

/** Every port of a page's command, and the offset of the second gateway, moved by `base`. */
function moved(command: string, base: number): string {
  return command
    .replace(/(127\.0\.0\.1:)(\d+)/g, (_all, host, port) => `${host}${Number(port) + base}`)
    .replace(/(PORT_OFFSET=)(\d+)/g, (_all, name, offset) => `${name}${Number(offset) + base}`)
    .replaceAll('config/', join(ROOT, 'config/'));
}

/** A shell in which `tracectl` is this checkout. */
function shell(command: string, cwd: string, env: Env): ChildProcess {
  const script = `tracectl() { "${process.execPath}" "${daemonEntry()}" "$@"; }\n${command}`;
  const all = { ...process.env, ...PLAIN, ...env };
  return spawn('bash', ['-c', script], { cwd, env: all, detached: true });
}

type Running = { readonly output: () => string; readonly ended: Promise<number | null> };

function run(t: Test, command: string, cwd: string, env: Env): Running {
  const child = shell(command, cwd, env);
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (more: string) => {
      text += more;
    });
  }
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  // The shell leads a group of processes, which ends with it.
  const kill = () => {
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
  };
  process.once('exit', kill);
  t.teardown(async () => {
    process.removeListener('exit', kill);
    kill();
    await ended;
  });
  return { output: () => text, ended };
}

async function ready(port: number, { output }: Running): Promise<void> {
  await eventually(
    () =>
      send(`http://127.0.0.1:${port}`, { path: '/readyz' }).then(
        ({ status }) => status,
        () => 0,
      ),
    (status) => status === 200,
    `port ${port} is ready`,
    60_000,
  ).catch((cause: unknown) => {
    throw new Error(output(), { cause });
  });
}

/** The number of traces in the answer of the page's first reading command. */
function tracesIn(output: string): number {
  const [answer = '{"traces":[]}'] =
    /^\{"traces":.*"next_cursor":(?:null|"[^"]*")[^{}]*\}/.exec(output) ?? [];
  return (JSON.parse(answer) as { traces: unknown[] }).traces.length;
}

t.test('starts two gateways and a worker on one machine by following the page', async (t) => {
  const [postgres, redis] = [await postgresServer(t, []), await redisServer(t)];
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-page-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  // The highest port of the page is below the range of outgoing connections too.
  const [port = 0] = await freePorts(1);
  const base = port - 13_143;
  const env = {
    DATABASE_URL: await postgres.database(),
    REDIS_URL: redis.url,
    TRACECTL_ADMIN_TOKEN: 'an-admin-token-of-thirty-two-characters',
    TRACECTL_PORT_OFFSET: `${base}`,
  };
  const { first, second, worker, sends, reads } = commandsOfPage();
  const start = (command: string) => run(t, moved(command, base), cwd, env);
  const daemons = [start(first), start(second), start(worker)];
  const ports = [13_133, 13_143, 13_134];
  await Promise.all(daemons.map((daemon, i) => ready((ports[i] ?? 0) + base, daemon)));

  // The output is not a terminal, so the key is in a file.
  const filesNow = async () =>
    daemons.flatMap(
      ({ output }) => /created the project.*\n\n {2}(\S+)\n/.exec(output())?.[1] ?? [],
    );
  // The text follows the readiness.
  const files = await eventually(filesNow, ({ length }) => length > 0, 'the file of a key');
  t.equal(files.length, 1, 'one of them makes the first project and names the file of its key');
  const key = readFileSync(files[0] ?? '', 'utf8').trim();
  for (const { output } of daemons) {
    const lines = output().split('\n');
    const logs = lines.filter((line) => line.startsWith('{"level"'));
    t.ok(logs.length > 0, 'logs are JSON');
    t.notOk(lines.some((line) => /^\d{4}-.* (INFO|WARN|ERROR) /.test(line)));
    t.notMatch(output(), 'Control socket could not be opened');
  }

  const withKey = { ...env, TRACECTL_KEY: key };
  const sent = run(t, `set -e\n${moved(sends, base)}`, cwd, withKey);
  t.equal(await sent.ended, 0, sent.output());
  const read = async () => {
    const shown = run(t, `set -e\n${moved(reads, base)}`, cwd, withKey);
    t.equal(await shown.ended, 0, shown.output());
    return shown.output();
  };
  const shown = await eventually(read, (text) => tracesIn(text) === 20, 'twenty traces', 60_000);
  t.match(shown, /\b60\b/, 'usage counts the events of both gateways');
});
