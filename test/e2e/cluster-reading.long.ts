import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { eventually, json, list, record, send } from './client.ts';
import type { Cluster } from './cluster.ts';
import { at, startCluster } from './cluster.ts';
import { follow } from './follow.ts';
import type { Target } from './journal.ts';
import { treeAt } from './shipped.ts';

/** Reading what another process accepts and a third one stores, over a real Redis and a real Postgres. */

t.setTimeout(600_000);
t.jobs = 1;

const LARGE = 600;

const eventOf = (traceId: string, more: object = {}) => ({
  ...{ id: randomUUID(), trace_id: traceId, operation: 'finish', kind: 'llm' },
  ...{ status: 'success', name: 'chat', ...more },
});

async function post({ base, key }: Target, events: readonly object[]): Promise<void> {
  const { status, body } = await send(base, {
    ...{ method: 'POST', path: '/api/v1/observations/batch', timeoutMs: 60_000 },
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  if (status !== 202) throw new Error(`${status} ${body.toString()}`);
}

/** The observations of a trace, for a client that waits for it. */
async function waitedFor(t: Test, { base, key }: Target, traceId: string): Promise<number> {
  const path = `/api/v1/traces/${traceId}?wait=30s&fields=tree`;
  const headers = { authorization: `Bearer ${key}` };
  const answer = await send(base, { path, headers, timeoutMs: 60_000 });
  t.equal(answer.status, 200, `${path}: ${answer.body.toString().slice(0, 200)}`);
  return list(record(json(answer)).observations).length;
}

async function readsItsWrites(t: Test, writer: Target, reader: Target): Promise<void> {
  for (let i = 0; i < 5; i++) {
    const traceId = randomUUID();
    await post(writer, [eventOf(traceId)]);
    t.equal(await waitedFor(t, reader, traceId), 1);
    await post(writer, [eventOf(traceId), eventOf(traceId)]);
    t.equal(await waitedFor(t, reader, traceId), 3, 'the trace was there, and two events were not');
  }
}

async function followsWrites(t: Test, writer: Target, reader: Target): Promise<void> {
  const stream = await follow(t, reader, '?q=name:wanted');
  t.equal(stream.status, 200);
  // A process hears of the stream a little after it begins.
  const wanted = await eventually(
    async () => {
      const traceId = randomUUID();
      await post(writer, [eventOf(traceId, { name: 'wanted' })]);
      await post(writer, [eventOf(randomUUID(), { name: 'other' })]);
      return stream.ids().at(-1) ?? traceId;
    },
    () => stream.events.length > 0,
    'an event of the stream',
    60_000,
  );
  t.type(wanted, 'string');
  t.ok(stream.events.every(({ data }) => data.name === 'wanted'));
  const large = randomUUID();
  const root = eventOf(large, { name: 'wanted', id: `root-${large}` });
  const children = Array.from({ length: LARGE }, () =>
    eventOf(large, { parent_id: `root-${large}`, name: 'child' }),
  );
  for (let i = 0; i < LARGE; i += 100) await post(writer, children.slice(i, i + 100));
  await post(writer, [root]);
  await eventually(
    async () => stream.events.filter(({ data }) => data.id === large).at(-1)?.data,
    (data) => data?.observation_count === LARGE + 1,
    'an event with the summary of a large trace',
    60_000,
  );
  stream.close();
}

const targetOf = ({ key }: Cluster, { base }: { readonly base: string }): Target => ({ base, key });

t.test('a gateway reads what another one accepts and a worker stores', async (t) => {
  const cluster = await startCluster(t, { gateways: 2, workers: 1 });
  const [writer, reader] = [0, 1].map((i) => targetOf(cluster, at(cluster.gateways, i)));
  if (writer === undefined || reader === undefined) return;
  await readsItsWrites(t, writer, reader);
  await followsWrites(t, writer, reader);
});

t.test('every process of a gateway reads what each of them accepts', async (t) => {
  const cluster = await startCluster(t, {
    ...{ gateways: 1, workers: 1 },
    gateway(config) {
      treeAt(config, 'service').workers = 2;
    },
  });
  const target = targetOf(cluster, at(cluster.gateways, 0));
  await readsItsWrites(t, target, target);
  await followsWrites(t, target, target);
});
