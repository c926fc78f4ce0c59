import { readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import t from 'tap';
import { freePorts } from '../helper/free-ports.ts';
import { grpcClient } from '../helper/grpc.ts';
import { dial } from '../helper/wire.ts';
import { eventually, oneRequestEach, send } from './client.ts';
import { type Daemon, startDaemon, total } from './daemon.ts';

t.setTimeout(60_000);

const PATH = '/api/v1/observations/batch';
const LIMIT = 80;

t.test('a daemon without free file descriptors', async (t) => {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const config = { receivers: { otlp: { protocols: { grpc: { endpoint } } } } };
  const daemon = await startDaemon(t, { config, openFiles: LIMIT });
  const withKey = { metadata: { authorization: `Bearer ${daemon.key}` } };
  const early = await dial(daemon.base);
  t.teardown(() => early.close());
  const body = batch('early');
  early.send(`${headOf(daemon, body.length)}${body.slice(0, 9)}`);

  const flood = [...flooding(daemon, daemon.base), ...flooding(daemon, `http://${endpoint}`)];
  t.teardown(() => {
    for (const socket of flood) socket.destroy();
  });
  await eventually(
    async () => flood.filter(({ destroyed }) => destroyed).length,
    (closed) => closed > 0,
    'closed connections',
  );

  await t.test('serves the connections that it has, and makes their data durable', async (t) => {
    early.send(body.slice(9));
    t.equal((await early.answer()).status, 202);
    t.ok(readdirSync(`/proc/${daemon.pid()}/fd`).length < LIMIT, 'some are left for files');
  });

  await t.test('says so in its log, its metrics and its health', async (t) => {
    t.match(daemon.stderr(), /WARN +service +Connections closed: few file descriptors are left/);
    t.match(daemon.stderr(), `limit=${LIMIT}`);
    t.match(daemon.stderr(), 'ulimit -n');
    const samples = await daemon.metrics();
    t.ok(total(samples, 'tracectl_process_connections_short_of_fds_total') > 0);
    t.equal(total(samples, 'tracectl_process_max_fds'), LIMIT);
    t.ok(total(samples, 'tracectl_process_open_fds') > 40);
    // Health shows the shortage for some seconds, which a slow machine may have used up.
    const degraded = await eventually(
      async () => {
        flood.push(...flooding(daemon, daemon.base, 1));
        const path = '/readyz?verbose';
        const health = await send(daemon.health, { path, agent: oneRequestEach });
        t.equal(health.status, 200, 'it stays in rotation');
        return JSON.parse(health.body.toString());
      },
      ({ phase }) => phase === 'degraded',
      'a degraded health',
    );
    t.match(
      degraded.components.find(({ id }: { id: string }) => id === 'file_descriptors'),
      { healthy: false, message: /ulimit -n/, details: { limit: LIMIT } },
    );
  });

  await t.test('serves new connections when others have ended', async (t) => {
    for (const socket of flood) socket.destroy();
    await eventually(
      async () => await post(daemon, 'after'),
      (status) => status === 202,
      'an answer on a new connection',
    );
    const client = grpcClient(t, `http://${endpoint}`);
    t.equal((await client.call(Buffer.alloc(0), withKey)).code, 0);
  });
});

/** Connections that are busy: each has sent the head of a request. */
function flooding(daemon: Daemon, base: string, count = 60): Socket[] {
  const { hostname, port } = new URL(base);
  return Array.from({ length: count }, () => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on('error', () => {});
    socket.on('connect', () => socket.write(headOf(daemon, 9)));
    return socket;
  });
}

function headOf({ key }: Daemon, bytes: number): string {
  const headers = `Host: t\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\n`;
  return `POST ${PATH} HTTP/1.1\r\n${headers}Content-Length: ${bytes}\r\n\r\n`;
}

function batch(id: string): string {
  const event = { id, trace_id: 't', operation: 'start', kind: 'span', status: 'running' };
  return JSON.stringify({ events: [event] });
}

async function post(daemon: Daemon, id: string): Promise<number> {
  const headers = { 'content-type': 'application/json' };
  const call = { method: 'POST', path: PATH, headers, body: batch(id), agent: oneRequestEach };
  return await daemon.call(call).then(
    ({ status }) => status,
    () => 0,
  );
}
