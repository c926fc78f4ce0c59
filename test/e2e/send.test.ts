import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import t from 'tap';
import { otlpJsonBody } from '../helper/batches.ts';
import { daemonEntry } from '../helper/daemon-bundle.ts';
import { startOtlpServer } from '../helper/otlp-server.ts';
import { PLAIN } from '../helper/plain-process.ts';
import { eventually, json } from './client.ts';
import { type Daemon, startDaemon, type Tree, total } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** `tracectl send` as a process, between real daemons. */

t.setTimeout(120_000);

function spawnSend(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  return spawn(process.execPath, [daemonEntry(), 'send', ...args], {
    env: { ...process.env, ...PLAIN, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

async function send(args: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawnSend(args, env);
  const [out, err, [status]] = await Promise.all([
    child.stdout.toArray(),
    child.stderr.toArray(),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { status, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() };
}

/** Adds a file exporter in the Collector's format. */
function withFile(config: Tree): void {
  treeAt(config, 'exporters').file = {
    path: 'archive/traces.jsonl',
    format: 'otlp_json',
    compression: 'zstd',
  };
  treeAt(config, 'service', 'pipelines')['traces/archive'] = {
    receivers: ['disk_queue'],
    exporters: ['file'],
  };
}

async function untilEmpty(daemon: Daemon): Promise<void> {
  await eventually(
    () => daemon.metrics(),
    (samples) => total(samples, 'tracectl_queue_entries') === 0,
    'an empty queue',
    30_000,
  );
}

type Observation = Record<string, unknown> & { readonly id: string };

/** The content of every trace, without its times and source of arrival. */
async function contentOf(daemon: Daemon): Promise<Record<string, Observation[]>> {
  const list = json(await daemon.call({ path: '/api/v1/traces?limit=100' })) as {
    traces: { id: string }[];
  };
  const content: Record<string, Observation[]> = {};
  for (const { id } of list.traces) {
    const path = `/api/v1/traces/${encodeURIComponent(id)}?payloads=true`;
    const { observations } = json(await daemon.call({ path })) as { observations: Observation[] };
    content[id] = observations
      .map(({ created_at: _c, updated_at: _u, source: _s, project_id: _p, ...rest }) => rest)
      .map((rest) => rest as Observation)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }
  return content;
}

t.test('a file of one daemon reads back equal from another', async (t) => {
  const [from, to] = await Promise.all([startDaemon(t, { edit: withFile }), startDaemon(t)]);
  const samples = ['--count', '4', '--endpoint', from.base];
  for (const kind of ['otlp', 'native', 'runs']) {
    const run = await send([kind, ...samples], { TRACECTL_KEY: from.key });
    t.match(run, { status: 0, out: '12 spans accepted', err: '' });
  }
  await untilEmpty(from);
  const file = join(from.directory, 'archive', 'traces.jsonl');
  const options = ['--file', file, '--endpoint', to.base, '--max-spans', '10', '--json'];
  const run = await send(['otlp', ...options], { TRACECTL_KEY: to.key });
  t.equal(run.status, 0, run.err);
  t.match(JSON.parse(run.out), { spans: 36, accepted: 36, requests: 4 });
  await untilEmpty(to);
  const [before, after] = [await contentOf(from), await contentOf(to)];
  t.equal(Object.keys(before).length, 12);
  for (const [id, observations] of Object.entries(before)) {
    t.equal(observations.length, 3);
    t.same(after[id], observations, id);
  }
  const again = await send(['otlp', ...options], { TRACECTL_KEY: to.key });
  t.equal(again.status, 0);
  await untilEmpty(to);
  t.same(await contentOf(to), after, 'sent twice, it is there once');
});

t.test('exits with 1 on a wrong key, and with 69 without a server', async (t) => {
  const daemon = await startDaemon(t);
  const wrong = await send(['native', '--count', '1', '--endpoint', daemon.base], {
    TRACECTL_KEY: 'ws_wrong',
  });
  t.match(wrong, { status: 1, err: 'answered 401: The API key is missing or invalid.' });
  await daemon.end('SIGKILL');
  const options = ['--count', '1', '--endpoint', daemon.base, '--retry-for', '0'];
  const nobody = await send(['native', ...options], { TRACECTL_KEY: daemon.key });
  t.match(nobody, { status: 69, err: 'ECONNREFUSED' });
});

t.test('Ctrl-C ends the command, also while it waits for stdin', async (t) => {
  const server = await startOtlpServer(t);
  const child = spawnSend(['otlp', '--file', '-', '--endpoint', server.url]);
  const err = child.stderr.toArray();
  const closed = once(child, 'close');
  child.stdin.write(otlpJsonBody([{}]));
  child.stdin.write('\n');
  await server.received(1);
  child.kill('SIGINT');
  t.same(await closed, [130, null]);
  t.match(Buffer.concat(await err).toString(), 'To resume: --file - --from-line 2');
});
