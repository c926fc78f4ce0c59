import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePorts } from '../../helper/free-ports.ts';
import { eventually, sendRaw } from '../client.ts';
import { type Daemon, startDaemon, total } from '../daemon.ts';
import { HOLDING, headOf, largeBody } from './attacks.ts';
import { beside, holdSlowdown, victimKey, victimOf } from './victim.ts';

/** Requests that hold memory, connections or streams, beside a well-behaved client of another project. */

t.setTimeout(600_000);

const MIB = 1_048_576;
const HOLD_MS = 4_000;

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
  for (const [name, attack] of Object.entries(HOLDING)) {
    const { statuses, slowdown } = await beside(victim, async () => {
      const close = await attack({ ...daemon, key: daemon.key, grpc });
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
    holdSlowdown(t, slowdown, name);
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
