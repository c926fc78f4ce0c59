import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { nativeEvent } from '../helper/batches.ts';
import { eventually, json, list, record, send } from './client.ts';
import { startDaemon, type Tree, total } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** Accepting slows down to an exporter that is slower than its clients, for each project on its own. */

t.setTimeout(180_000);

const ANSWER_MS = 300;
const REFUSALS = 20;

/** A server of OTLP that takes its time, until it hurries. */
async function slowServer(t: Test) {
  const received = { requests: 0 };
  let answerMs = ANSWER_MS;
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      setTimeout(() => {
        received.requests++;
        response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
      }, answerMs);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    hurry() {
      answerMs = 0;
    },
  };
}

t.test('a project that sends too much is slowed down, and no other one', async (t) => {
  const slow = await slowServer(t);
  const withExporter = (config: Tree): void => {
    treeAt(config, 'exporters').otlphttp = {
      endpoint: slow.url,
      sending_queue: { enabled: false },
    };
    treeAt(config, 'service', 'pipelines')['traces/forward'] = {
      ...{ receivers: ['disk_queue'], exporters: ['otlphttp'] },
    };
  };
  const queue = { max_backlog_age: '1s', num_consumers: 1 };
  const daemon = await startDaemon(t, { queue, edit: withExporter });
  t.equal((await daemon.cli('projects', 'create', 'quiet', '--json')).code, 0);
  const quietKey = (await daemon.cli('keys', 'create', '--project', 'quiet')).stdout.trim();
  let sent = 0;
  const post = async (key: string) => {
    const id = `trace-${++sent}`;
    const event = nativeEvent({ trace_id: id, observation_id: `o-${sent}` });
    const answer = await send(daemon.base, {
      ...{ method: 'POST', path: '/api/v1/observations/batch' },
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ events: [event] }),
    });
    return { ...answer, id };
  };
  let accepted = 0;
  let refused = 0;
  const flood = async (): Promise<void> => {
    while (refused < REFUSALS) {
      const answer = await post(daemon.key);
      if (answer.status === 202) accepted++;
      else {
        refused++;
        t.equal(answer.status, 503);
        t.equal(answer.headers['retry-after'], '1');
        t.match(json(answer), { code: 'unavailable', message: /oldest batch has waited for/ });
        await pause(100);
      }
    }
  };
  const calm = async (): Promise<void> => {
    while (refused < REFUSALS) {
      const { status, id } = await post(quietKey);
      t.equal(status, 202, 'the quiet project');
      accepted++;
      const path = `/api/v1/traces/${id}?wait=20s`;
      const headers = { authorization: `Bearer ${quietKey}` };
      t.equal((await send(daemon.base, { path, headers, timeoutMs: 30_000 })).status, 200);
      // Less than its half of the exporter's pace.
      await pause(4 * ANSWER_MS);
    }
  };
  await Promise.all([flood(), flood(), calm()]);
  const health = await send(daemon.health, { path: '/readyz?verbose' });
  t.equal(health.status, 200, 'the service is ready all the time');
  const parts = list(record(json(health)).components).map(record);
  const own = parts.find(({ id }) => id === 'disk_queue');
  t.match(own?.details, { max_backlog_age_seconds: 1 });
  // The backlog of a second is as long as the machine is fast.
  slow.hurry();
  await eventually(
    () => daemon.metrics(),
    (samples) => total(samples, 'tracectl_queue_entries') === 0,
    'an empty queue',
    120_000,
  );
  t.equal(slow.received.requests, accepted, 'every accepted batch is delivered');
});
