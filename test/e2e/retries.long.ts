import t from 'tap';
import { startOtlpServer } from '../helper/otlp-server.ts';
import { json } from './client.ts';
import { type Daemon, startDaemon, type Tree, total } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** Retries of clients that send no `Idempotency-Key`, against the real daemon. */

t.setTimeout(120_000);

const NATIVE = '/api/v1/observations/batch';

const event = (id: string) =>
  JSON.stringify({
    events: [{ id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok', inputs: 'hi' }],
  });

const post = (daemon: Daemon, path: string, body: string, headers = {}) =>
  daemon.call({
    method: 'POST',
    path,
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });

const counted = async (daemon: Daemon) => {
  const samples = await daemon.metrics();
  return total(samples, 'tracectl_quota_month_events');
};

t.test('answers a repeated request with the first answer and counts it once', async (t) => {
  const daemon = await startDaemon(t);
  const first = await post(daemon, NATIVE, event('a'));
  const again = await post(daemon, NATIVE, event('a'));
  t.equal(first.status, again.status);
  t.same(json(again), json(first));
  t.equal(await counted(daemon), 1);

  const all = await Promise.all(Array.from({ length: 8 }, () => post(daemon, NATIVE, event('b'))));
  t.same([...new Set(all.map(({ status }) => status))], [first.status], 'none is answered 409');
  t.equal(new Set(all.map(({ body }) => body.toString())).size, 1);
  t.equal(await counted(daemon), 2);

  await daemon.end('SIGKILL');
  await daemon.start();
  t.same(json(await post(daemon, NATIVE, event('a'))), json(first), 'also after a crash');
  t.equal(await counted(daemon), 2);

  await post(daemon, NATIVE, event('c'));
  await post(daemon, NATIVE, event('a'), { 'idempotency-key': 'explicit' });
  t.equal(await counted(daemon), 4, 'other bytes and explicit keys are other requests');
  const verified = await daemon.cli('usage', 'verify');
  t.equal(verified.code, 0, verified.stderr);
  const repeated = total(await daemon.metrics(), 'tracectl_receiver_requests_total', {
    outcome: 'repeated',
  });
  t.equal(repeated, 1);
});

t.test('recognizes at most max_entries requests of a window, and none if disabled', async (t) => {
  for (const [settings, expected] of [
    [{ enabled: false }, 4],
    [{ max_entries: 6 }, 3],
    [{ max_entries: 7 }, 2],
  ] as const) {
    const daemon = await startDaemon(t, { config: { service: { repeated_requests: settings } } });
    for (const id of ['a', 'a', 'b', 'b']) await post(daemon, NATIVE, event(id));
    t.equal(await counted(daemon), expected, JSON.stringify(settings));
    await daemon.remove();
  }
});

t.test('repeats a request to every exporter until all have it, and counts it once', async (t) => {
  const destination = await startOtlpServer(t);
  const daemon = await startDaemon(t, {
    edit(config) {
      config.exporters = {
        ...(config.exporters as Tree),
        otlphttp: {
          endpoint: destination.url,
          retry_on_failure: { enabled: false },
          sending_queue: { enabled: false },
        },
      };
      treeAt(config, 'service', 'pipelines', 'traces/accept').exporters = [
        'disk_queue',
        'otlphttp',
      ];
    },
  });
  for (const headers of [{}, { 'idempotency-key': 'k' }]) {
    const before = { counted: await counted(daemon), received: destination.requests.length };
    const send = () => post(daemon, NATIVE, event(`several-${JSON.stringify(headers)}`), headers);
    destination.next({ status: 503 });
    t.equal((await send()).status, 503);
    t.equal(await counted(daemon), before.counted, 'nothing was counted');
    const first = await send();
    t.equal(first.status, 202);
    t.equal(destination.requests.length, before.received + 2, 'the exporter that failed has it');
    t.same(json(await send()), json(first));
    t.equal(destination.requests.length, before.received + 2, 'a repetition is not exported');
    t.equal(await counted(daemon), before.counted + 1);
  }
});
