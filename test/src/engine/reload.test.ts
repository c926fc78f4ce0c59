import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import t from 'tap';
import { capability, offer } from '../../../src/component/capability.ts';
import type { ReceiverFactory } from '../../../src/component/factory.ts';
import type { ServiceConfig } from '../../../src/config/config.ts';
import { BrokenReloadError, createService } from '../../../src/engine/service.ts';
import { renderEnvelopeRefusal } from '../../../src/http/envelope.ts';
import { answer } from '../../../src/http/exchange.ts';
import type { Listener } from '../../../src/http/listener.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { USUAL_LIMITS } from '../../helper/http.ts';
import { fakeParts, serviceConfig } from '../../helper/service.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { createSink } from '../../helper/sink.ts';

const STORE = capability<string>('store');
const PIPELINES = { 'traces/accept': 'in > auth > queue', 'traces/store': 'queue > work > out' };

/** A service of two pipelines; `change` replaces parts of it. */
function embedded(
  parts: ReturnType<typeof fakeParts>,
  change: {
    store?: unknown;
    auth?: unknown;
    queue?: unknown;
    out?: unknown;
    in?: unknown;
    pipelines?: Record<string, string>;
  } = {},
): ServiceConfig {
  return serviceConfig(
    {
      extensions: [parts.extension('store', [offer(STORE, 'it')], change.store ?? {})],
      receivers: [parts.receiver('in', {}, change.in ?? {})],
      processors: [
        parts.processor('auth', { authenticate: () => aTenant() }, {}, change.auth ?? {}),
        parts.processor('work'),
      ],
      connectors: [parts.connector('queue', {}, change.queue ?? {})],
      exporters: [parts.exporter('out', {}, change.out ?? {}), parts.exporter('more')],
    },
    change.pipelines ?? PIPELINES,
  );
}

async function started(t: { teardown(f: () => unknown): void }, config: ServiceConfig) {
  const logger = recordingLogger();
  const service = await createService({ config, logger });
  t.teardown(() => service.shutdown());
  await service.start();
  return { service, logger };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

t.test('keeps every component when nothing changed', async (t) => {
  const parts = fakeParts();
  const { service } = await started(t, embedded(parts));
  parts.events.length = 0;
  await service.reload(embedded(parts));
  t.same(parts.events, []);
  t.match(await service.metricsText(), /tracectl_config_reload_success 1/);
  service.reloadRefused();
  t.match(await service.metricsText(), /tracectl_config_reload_success 0/);
  await service.reload(embedded(parts));
  t.match(await service.metricsText(), /tracectl_config_reload_success 1/);
});

t.test('replaces changed components and keeps the others running', async (t) => {
  const parts = fakeParts();
  const { service } = await started(t, embedded(parts));
  const reload = async (change: Parameters<typeof embedded>[1]) => {
    parts.events.length = 0;
    await service.reload(embedded(parts, change));
    return parts.events.splice(0);
  };
  t.same(await reload({ auth: { keys: 1 } }), ['shutdown auth', 'start auth']);
  t.same(
    await reload({ auth: { keys: 1 }, out: { path: 'b' } }),
    ['shutdown queue', 'shutdown out', 'start out', 'start queue'],
    'a queue is replaced with the exporters behind it',
  );
  t.same(await reload({}), [
    ...['shutdown queue', 'shutdown auth', 'shutdown out'],
    ...['start out', 'start auth', 'start queue'],
  ]);
  t.same(
    await reload({ in: { endpoint: 'b' } }),
    ['start in', 'shutdown in'],
    'the new receiver listens before the old one stops',
  );
  const grown = { ...PIPELINES, 'traces/store': 'queue > work > out more' };
  t.same(await reload({ in: { endpoint: 'b' }, pipelines: grown }), [
    ...['shutdown queue', 'start more', 'start queue'],
  ]);
});

t.test('replaces the users of a changed extension', async (t) => {
  const parts = fakeParts();
  const { service } = await started(t, embedded(parts));
  parts.settings.get('out')?.host.extension('store', STORE);
  parts.settings.get('in')?.host.extension('store', STORE);
  parts.events.length = 0;
  await service.reload(embedded(parts, { store: { directory: 'b' } }));
  t.same(parts.events, [
    ...['shutdown queue', 'shutdown out', 'shutdown store'],
    ...['start store', 'start out', 'start queue', 'start in', 'shutdown in'],
  ]);
});

/** A receiver that serves one path, at an address that it may share. */
function serving(path: string, endpoint: string): Partial<ReceiverFactory> {
  return {
    create({ host }) {
      let listener: Listener | undefined;
      return {
        async start() {
          listener = await host.service(LISTENERS).bind(endpoint, USUAL_LIMITS);
          const reply = { status: 200, contentType: 'text/plain', body: path };
          listener.route({
            ...{ method: 'GET', path, renderRefusal: renderEnvelopeRefusal },
            handler: (exchange) => answer(exchange, reply),
          });
          await listener.open();
        },
        shutdown: async (deadline) => listener?.close(deadline),
      };
    },
  };
}

t.test('answers 404 for the paths of a receiver that a reload removes', async (t) => {
  const parts = fakeParts();
  const endpoint = `127.0.0.1:${await freePort()}`;
  const stays = parts.receiver('stays', serving('/stays', endpoint));
  const leaves = serving('/leaves', endpoint);
  const config = (id?: number) =>
    serviceConfig(
      {
        receivers: id === undefined ? [stays] : [stays, parts.receiver('leaves', leaves, id)],
        exporters: [parts.exporter('out')],
      },
      { traces: `stays${id === undefined ? '' : ' leaves'} > > out` },
    );
  const { service } = await started(t, config(1));
  const statuses = async () => {
    const ask = (path: string) => fetch(`http://${endpoint}${path}`);
    const answers = await Promise.all(['/stays', '/leaves'].map(ask));
    return answers.map(({ status }) => status);
  };
  t.same(await statuses(), [200, 200]);
  await service.reload(config(2));
  t.same(await statuses(), [200, 200]);
  await service.reload(config());
  t.same(await statuses(), [200, 404]);
  await service.reload(config(1));
  t.same(await statuses(), [200, 200]);
});

t.test('lets requests wait during a reload and refuses none', async (t) => {
  const parts = fakeParts();
  const slow = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const [before, after] = [createSink(), createSink()];
  const simple = (consume: (batch: SealedBatch) => Promise<void>, config: unknown) =>
    serviceConfig(
      {
        receivers: [parts.receiver('in')],
        processors: [parts.processor('auth', { authenticate: () => aTenant() })],
        exporters: [
          parts.exporter('out', { consume: (batch) => consume(batch as SealedBatch) }, config),
        ],
      },
      { traces: 'in > auth > out' },
    );
  const { service } = await started(
    t,
    simple(async (batch) => {
      arrived.resolve();
      await slow.promise;
      await before.consume(batch);
    }, 'before'),
  );
  const [pipeline] = parts.pipelines.get('in') ?? [];
  if (pipeline === undefined) throw new Error('no pipeline');
  const inFlight = pipeline.accept(received(nativeBatch(1)), requestContext());
  await arrived.promise;
  const reloaded = service.reload(simple((batch) => after.consume(batch), 'after'));
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  const waiting = pipeline.accept(received(nativeBatch(1)), requestContext());
  t.same([before.batches.length, after.batches.length], [0, 0]);
  slow.resolve();
  await Promise.all([inFlight, waiting, reloaded]);
  t.same([before.batches.length, after.batches.length], [1, 1]);
  t.same(parts.events.slice(-2), ['shutdown out', 'start out']);
});

t.test('gives leaving receivers their time however long the next components start', async (t) => {
  const parts = fakeParts();
  const clock = fakeClock();
  const deadlines: boolean[] = [];
  const create: ReceiverFactory['create'] = () => ({
    async start() {},
    async shutdown(deadline) {
      deadlines.push(deadline.aborted);
    },
  });
  const config = (generation: number) =>
    serviceConfig(
      {
        receivers: [parts.receiver('in', { create }, generation)],
        processors: [parts.processor('auth', { authenticate: () => aTenant() })],
        exporters: [
          parts.exporter('out', { start: async () => clock.advance(60_000) }, generation),
        ],
      },
      { traces: 'in > auth > out' },
    );
  const service = await createService({ config: config(1), logger: recordingLogger(), clock });
  await service.start();
  await service.reload(config(2));
  t.same(deadlines, [false]);
  await service.shutdown();
});

t.test('keeps the running graph when the next one cannot be created or started', async (t) => {
  const parts = fakeParts();
  const sink = createSink();
  const config = (out: object, id: unknown, exporter = 'out') =>
    serviceConfig(
      {
        receivers: [parts.receiver('in')],
        exporters: [parts.exporter('out', out, id)],
      },
      { traces: `in > > ${exporter}` },
    );
  const good = { consume: (batch: SealedBatch) => sink.consume(batch) };
  const { service, logger } = await started(t, config(good, 1));
  const [pipeline] = parts.pipelines.get('in') ?? [];
  if (pipeline === undefined) throw new Error('no pipeline');

  await t.rejects(service.reload(config({}, 1, 'unknown')), { name: 'GraphError' });
  await pipeline.consume(nativeBatch(1));
  t.match(await service.metricsText(), /tracectl_config_reload_success 0/);

  let starts = 0;
  const bad = {
    ...good,
    start: () => (starts++ === 0 ? Promise.reject(new Error('no such place')) : Promise.resolve()),
  };
  await t.rejects(service.reload(config(bad, 2)), { message: /cannot start exporter "out"/ });
  await pipeline.consume(nativeBatch(1));
  t.equal(sink.batches.length, 2);
  t.ok(service.health(false).ready);
  t.match(logger.lines.at(-1), { message: 'Reload failed; new configuration not applied' });

  await service.reload(config(good, 3));
  t.match(await service.metricsText(), /tracectl_config_reload_success 1/);
});

t.test('shuts down when the former graph cannot be restored either', async (t) => {
  const parts = fakeParts();
  const config = (out: object, id: unknown) =>
    serviceConfig(
      { receivers: [parts.receiver('in')], exporters: [parts.exporter('out', out, id)] },
      { traces: 'in > > out' },
    );
  const { service } = await started(t, config({}, 1));
  const bad = { start: () => Promise.reject(new Error('never again')) };
  await t.rejects(service.reload(config(bad, 2)), BrokenReloadError);
  await service.shutdown();
  t.equal(service.health(false).status, 'stopped');
  await t.rejects(service.reload(config({}, 1)), /only a running service/);
});
