import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { eventually, sendRaw } from '../client.ts';
import { type Daemon, freePorts, startDaemon, total } from '../daemon.ts';
import { hoardedStreams } from './hoarded-streams.ts';
import { beside, MAX_SLOWDOWN, victimKey, victimOf } from './victim.ts';

/** Requests that hold memory, connections or streams, beside a well-behaved client of another project. */

t.setTimeout(600_000);

const MIB = 1_048_576;
const HOLD_MS = 4_000;

function headOf(daemon: Daemon, framing: string): string {
  return (
    'POST /api/v1/observations/batch HTTP/1.1\r\nhost: attack\r\ncontent-type: application/json\r\n' +
    `authorization: Bearer ${daemon.key}\r\n${framing}\r\n\r\n`
  );
}

/** Connections that send some bytes and then nothing; the function closes them. */
async function opened(base: string, count: number, bytes: Buffer): Promise<() => void> {
  const { hostname, port } = new URL(base);
  const sockets: Socket[] = [];
  for (let i = 0; i < count; i += 100) {
    const some = Array.from({ length: Math.min(100, count - i) }, () => {
      const socket = connect(Number(port), hostname).on('error', () => {});
      socket.resume();
      return socket;
    });
    sockets.push(...some);
    await Promise.all(some.map((socket) => once(socket, 'connect').catch(() => {})));
    for (const socket of some) socket.write(bytes);
  }
  return () => {
    for (const socket of sockets) socket.destroy();
  };
}

type Attack = (daemon: Daemon, grpc: string) => Promise<() => void>;

const declared = (count: number, more = '', sent = 0): Attack => {
  return (daemon) => {
    const head = headOf(daemon, `content-length: ${24 * MIB}${more}`);
    return opened(daemon.base, count, Buffer.from(head + ' '.repeat(sent)));
  };
};

const ATTACKS: Readonly<Record<string, Attack>> = {
  '2 sockets declare 24 MiB and send nothing': declared(2),
  '2 sockets declare 24 MiB and wait for 100 Continue': declared(2, '\r\nexpect: 100-continue'),
  '200 sockets declare 24 MiB and send nothing': declared(200),
  '12 sockets send 20 MiB of 24 MiB and then nothing': declared(12, '', 20 * MIB),
  '1,540 chunked requests of one byte': (daemon) =>
    opened(
      daemon.base,
      1540,
      Buffer.from(`${headOf(daemon, 'transfer-encoding: chunked')}1\r\n{\r\n`),
    ),
  '200 gRPC connections with 5 bytes on 100 streams each': (daemon, grpc) =>
    opened(grpc, 200, hoardedStreams(daemon.key, 100)),
};

async function startWithGrpc(t: Parameters<typeof startDaemon>[0]) {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const config = { receivers: { otlp: { protocols: { grpc: { endpoint } } } } };
  return { daemon: await startDaemon(t, { config }), grpc: `http://${endpoint}` };
}

const heldBytes = async (daemon: Daemon): Promise<number> =>
  total(await daemon.metrics(), 'tracectl_http_in_flight_bytes');

t.test('requests that hold memory do not harm a client of another project', async (t) => {
  const { daemon, grpc } = await startWithGrpc(t);
  const victim = victimOf(daemon, await victimKey(daemon), 20);
  t.teardown(victim.close);
  await victim.watch(1_000);
  for (const [name, attack] of Object.entries(ATTACKS)) {
    const { statuses, slowdown } = await beside(victim, async () => {
      const close = await attack(daemon, grpc);
      await sleep(HOLD_MS);
      close();
      await eventually(
        () => heldBytes(daemon),
        (held) => held < MIB,
        'released memory',
        30_000,
      );
    });
    t.same(statuses, ['202'], name);
    t.ok(slowdown <= MAX_SLOWDOWN, `${name}: ${slowdown.toFixed(1)} times`);
  }
});

t.test('a body that is too slow is refused, and its memory is released', async (t) => {
  const { daemon } = await startWithGrpc(t);
  const head = headOf(daemon, `content-length: ${MIB}`);
  const bytes = Buffer.from(head + ' '.repeat(65_536));
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => sendRaw(daemon.base, bytes, 60_000)),
  );
  t.same(new Set(answers.map(({ status }) => status)), new Set([408]));
  await eventually(
    () => heldBytes(daemon),
    (held) => held === 0,
    'released memory',
    30_000,
  );
});

/** A valid body of 20 MiB. */
function largeBody(): Buffer {
  const inputs = 'word '.repeat(4_190);
  const events = Array.from({ length: 1_000 }, (_, i) =>
    JSON.stringify({
      ...{ id: `e${i}`, trace_id: 'large', operation: 'finish', kind: 'llm', status: 'ok' },
      inputs,
    }),
  );
  return Buffer.from(`{"events":[${events.join(',')}]}`);
}

function peakMemory(daemon: Daemon): number {
  const status = readFileSync(`/proc/${daemon.pid()}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}

t.test('20 valid bodies of 20 MiB beside each other are accepted within 512 MiB', async (t) => {
  const { daemon } = await startWithGrpc(t);
  const victim = victimOf(daemon, await victimKey(daemon), 50);
  t.teardown(victim.close);
  const body = largeBody();
  const bytes = Buffer.concat([
    Buffer.from(headOf(daemon, `content-length: ${body.length}`)),
    body,
  ]);
  const others = new Set<number | undefined>();
  const sendOne = async (): Promise<void> => {
    for (;;) {
      const { status } = await sendRaw(daemon.base, bytes, 60_000, true);
      if (status === 202) return;
      others.add(status);
      await sleep(1_000);
    }
  };
  const report = await victim.during(() => Promise.all(Array.from({ length: 20 }, sendOne)));
  t.same(Object.keys(report.statuses), ['202'], 'the other client is always accepted');
  others.delete(503);
  t.same(others, new Set(), 'refusals are 503');
  t.ok(peakMemory(daemon) < 512 * MIB, `peak memory ${Math.round(peakMemory(daemon) / MIB)} MiB`);
});
