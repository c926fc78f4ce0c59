import t from 'tap';
import { capability, findOffer, offer } from '../../../src/component/capability.ts';
import { HEALTH, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { createService } from '../../../src/engine/service.ts';
import { Refusal, RetryableError } from '../../../src/model/errors.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { aTenant, nativeBatch, received } from '../../helper/batches.ts';
import { fakeParts, serviceConfig } from '../../helper/service.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { aHead } from '../../helper/sink.ts';
import { auth, point, running } from './running.ts';

const NAMED = capability<string>('named');

t.test(
  'starts components before those that send to them, and stops them after those',
  async (t) => {
    const parts = fakeParts();
    const { service } = await running(
      t,
      parts,
      {
        extensions: [parts.extension('store'), parts.extension('admin')],
        receivers: [parts.receiver('in')],
        processors: [parts.processor('auth', auth)],
        connectors: [parts.connector('queue')],
        exporters: [parts.exporter('out'), parts.exporter('unused')],
      },
      { 'traces/accept': 'in > auth > queue', 'traces/store': 'queue > > out' },
    );
    await service.shutdown();
    t.same(parts.events, [
      ...['start store', 'start admin', 'start out', 'start auth', 'start queue', 'start in'],
      ...['shutdown in', 'shutdown queue', 'shutdown auth', 'shutdown out'],
      ...['shutdown admin', 'shutdown store'],
    ]);
  },
);

t.test('names a component that cannot start, and stops the others', async (t) => {
  const parts = fakeParts();
  const config = serviceConfig(
    {
      extensions: [parts.extension('store')],
      receivers: [parts.receiver('in')],
      exporters: [
        parts.exporter('out', { start: () => Promise.reject(new Error('the disk is gone')) }),
      ],
    },
    { traces: 'in > > out' },
  );
  const service = await createService({ config, logger: recordingLogger() });
  await t.rejects(service.start(), {
    name: 'ComponentError',
    componentId: 'out',
    message: 'cannot start exporter "out": the disk is gone',
  });
  t.same(parts.events, ['start store', 'shutdown out', 'shutdown store', 'shutdown in']);
});

t.test('shuts down without a start', async (t) => {
  const parts = fakeParts();
  const config = serviceConfig(
    { receivers: [parts.receiver('in')], exporters: [parts.exporter('out')] },
    { traces: 'in > > out' },
  );
  const service = await createService({ config, logger: recordingLogger() });
  const [first, second] = await Promise.all([service.shutdown(), service.shutdown()]);
  t.equal(first, second);
  t.same(parts.events, ['shutdown in', 'shutdown out']);
});

t.test('refuses pipelines whose components do not fit together', async (t) => {
  const parts = fakeParts();
  const part = {
    receivers: [parts.receiver('in', { tenancy: { hasProject: true } })],
    processors: [parts.processor('auth', auth, { authenticates: true })],
    connectors: [parts.connector('a'), parts.connector('b')],
    exporters: [parts.exporter('out')],
  };
  const refused = (pipelines: Record<string, string>, message: RegExp) =>
    t.rejects(
      createService({ config: serviceConfig(part, pipelines), logger: recordingLogger() }),
      {
        name: 'GraphError',
        message,
      },
    );
  await refused({ traces: 'in > > out' }, /the project of the data .* receivers\.in\.project/);
  await refused({ t1: 'in > auth > out', t2: 'in > auth > out' }, /belongs to one pipeline/);
  await refused({ t1: 'a > > b', t2: 'b > > a' }, /"a", "b" feed each other in a cycle/);
  await refused({ traces: 'in > auth > unknown' }, /names "unknown", which is not declared/);
});

t.test('authenticates, checks the permission and admits before the body', async (t) => {
  const parts = fakeParts();
  const log: string[] = [];
  const admit = (id: string) => ({
    admit: () => {
      log.push(`admit ${id}`);
      return () => void log.push(`release ${id}`);
    },
  });
  const { pipelineOf, service } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.processor('auth', {
          offers: [offer(NAMED, 'sqlite')],
          authenticate: (head) =>
            aTenant({ permissions: head.path === '/r' ? [] : ['ingest:write'] }),
        }),
        parts.processor('first', admit('first')),
        parts.processor('second', admit('second')),
      ],
      exporters: [parts.exporter('out')],
    },
    { traces: 'in > auth first second > out' },
  );
  const pipeline = pipelineOf('in');
  t.equal(pipeline.id, 'traces');
  t.equal(findOffer(pipeline.offers, NAMED), 'sqlite');
  t.equal(pipeline.idempotency, undefined);
  t.same(
    pipeline.branches.map(({ exporterId }) => exporterId),
    ['out'],
  );
  const admission = pipeline.admit(aHead());
  t.notOk(admission instanceof Promise, 'synchronous');
  const { tenant, release } = await admission;
  t.equal(tenant.projectId, 'proj_test');
  const inFlight = async () => {
    const labels = { receiver: 'in', pipeline: 'traces' };
    return point(await service.metricsText(), 'tracectl_receiver_in_flight_requests', labels);
  };
  t.equal(await inFlight(), 1);
  release();
  release();
  t.equal(await inFlight(), 0);
  t.same(log, ['admit first', 'admit second', 'release second', 'release first']);
  t.throws(() => pipeline.admit(aHead({ path: '/r' })), { name: 'Refusal', code: 'forbidden' });
  t.throws(() => pipeline.admitRead(aHead()), { code: 'forbidden' });
});

t.test('checks the permission of a key that is looked up, too', async (t) => {
  const parts = fakeParts();
  const { pipelineOf } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.processor('auth', {
          authenticate: async ({ path }) =>
            aTenant({ permissions: path === '/r' ? ['traces:read'] : ['ingest:write'] }),
        }),
      ],
      exporters: [parts.exporter('out')],
    },
    { traces: 'in > auth > out' },
  );
  const { admit, admitRead } = pipelineOf('in');
  const refused = { name: 'Refusal', code: 'forbidden' };
  await t.rejects(async () => admit(aHead({ path: '/r' })), refused);
  await t.rejects(async () => admitRead(aHead()), refused);
  await t.resolves(async () => admit(aHead()));
  await t.resolves(async () => admitRead(aHead({ path: '/r' })));
});

t.test('a request whose client has its answer reaches no exporter', async (t) => {
  const parts = fakeParts();
  let consumed = 0;
  const settled: string[] = [];
  const { pipelineOf } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.processor('quotas', {
          process() {},
          settle: (_batch, outcome) => void settled.push(outcome),
        }),
      ],
      exporters: [parts.exporter('out', { consume: async () => void consumed++ })],
    },
    { traces: 'in > quotas > out' },
  );
  const late = requestContext({ signal: AbortSignal.abort() });
  await t.rejects(pipelineOf('in').accept(received(nativeBatch(1)), late), { code: 'too_late' });
  t.equal(consumed, 0);
  t.same(settled, ['failed']);
});

t.test('answers within the shortest time of its exporters', async (t) => {
  for (const [times, least] of [
    [[undefined, undefined], undefined],
    [[9, 5, undefined], 5],
    [[5, 9], 5],
  ] as const) {
    const parts = fakeParts();
    const exporters = times.map((answerWithin, i) =>
      parts.exporter(`out${i}`, answerWithin === undefined ? {} : { answerWithin }),
    );
    const ids = exporters.map(({ id }) => id).join(' ');
    const receivers = [parts.receiver('in')];
    const { pipelineOf } = await running(
      t,
      parts,
      { receivers, exporters },
      { a: `in > > ${ids}` },
    );
    t.equal(pipelineOf('in').answerWithin, least);
  }
});

t.test('releases the admissions of other processors when one refuses', async (t) => {
  for (const waits of [false, true]) {
    const parts = fakeParts();
    const log: string[] = [];
    const refusal = new Refusal('monthly_limit', 'The month is used up.');
    const { pipelineOf, service, logger } = await running(
      t,
      parts,
      {
        receivers: [parts.receiver('in')],
        processors: [
          parts.processor('auth', {
            authenticate: () => (waits ? Promise.resolve(aTenant()) : aTenant()),
          }),
          parts.processor('a', {
            admit: () => () => {
              log.push('release a');
              throw new Error('a bug');
            },
          }),
          parts.processor('b', {
            admit: () => {
              const release = () => void log.push('release b');
              return waits ? Promise.resolve(release) : release;
            },
          }),
          parts.processor('c', {
            admit: () => {
              throw refusal;
            },
          }),
        ],
        exporters: [parts.exporter('out')],
      },
      { traces: 'in > a b auth c > out' },
    );
    await t.rejects(async () => pipelineOf('in').admit(aHead()), refusal);
    t.same(log, ['release b', 'release a']);
    t.match(logger.lines.slice(1), [
      { message: 'Component failed unexpectedly', fields: { component: 'a' } },
    ]);
    const text = await service.metricsText();
    const labels = { receiver: 'in', pipeline: 'traces' };
    t.equal(
      point(text, 'tracectl_receiver_refusals_total', { ...labels, code: 'monthly_limit' }),
      1,
    );
    t.equal(point(text, 'tracectl_receiver_requests_total', { ...labels, outcome: 'refused' }), 1);
    t.equal(point(text, 'tracectl_receiver_in_flight_requests', labels), 0);
  }
});

t.test(
  'lets a processor replace the refusal of a failed authentication, and of no other request',
  async (t) => {
    const parts = fakeParts();
    const log: string[] = [];
    const { pipelineOf } = await running(
      t,
      parts,
      {
        receivers: [parts.receiver('in')],
        processors: [
          parts.processor('auth', {
            authenticate(head) {
              log.push('authenticate');
              const unauthorized = new Refusal('unauthorized', 'no');
              if (head.path === '/later') return Promise.reject(unauthorized);
              if (head.path === '/now' || head.path === '/flood') throw unauthorized;
              if (head.path === '/away') throw new RetryableError('storage_failed', 'away');
              return aTenant({
                permissions: head.path === '/r' ? ['traces:read'] : ['ingest:write'],
              });
            },
          }),
          parts.processor('guard', {
            authenticationFailed({ path }) {
              log.push('failed');
              if (path === '/flood') throw new Refusal('rate_limited', 'slower');
            },
            admit({ path }) {
              if (path === '/full') throw new Refusal('monthly_limit', 'full');
              return undefined;
            },
          }),
        ],
        exporters: [parts.exporter('out')],
      },
      { traces: 'in > auth guard > out' },
    );
    const refused = async (path: string) => {
      log.length = 0;
      const tenant = await (async () => pipelineOf('in').admit(aHead({ path })))().then(
        () => 'admitted',
        (error: unknown) =>
          error instanceof Refusal ? (error.tenant?.keyId ?? error.code) : 'away',
      );
      return [tenant, ...log];
    };
    t.same(await refused('/good'), ['admitted', 'authenticate']);
    t.same(await refused('/flood'), ['rate_limited', 'authenticate', 'failed']);
    t.same(await refused('/now'), ['unauthorized', 'authenticate', 'failed']);
    t.same(await refused('/later'), ['unauthorized', 'authenticate', 'failed']);
    t.same(
      await refused('/away'),
      ['away', 'authenticate'],
      'a fault of the store is no failed authentication',
    );
    t.same(await refused('/r'), ['key_test', 'authenticate'], 'nor is a missing permission');
    t.same(await refused('/full'), ['key_test', 'authenticate'], 'the refusal names the key');
  },
);

t.test('seals with the usage that a processor reserved', async (t) => {
  const parts = fakeParts();
  const usage = { events: 2, bytes: 77, at: 5 };
  const { pipelineOf } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      processors: [
        parts.processor('quotas', {
          process(_batch, request) {
            request.reserved = usage;
          },
        }),
      ],
      exporters: [parts.exporter('out')],
    },
    { traces: 'in > quotas > out' },
  );
  const sealed = await pipelineOf('in').accept(received(nativeBatch(2)), requestContext());
  t.equal(sealed.usage, usage);
});

t.test('takes the tenant of the receiver in a pipeline without auth', async (t) => {
  const parts = fakeParts();
  const { pipelineOf } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in', { tenancy: { hasProject: true } }, { project: 'proj_own' })],
      exporters: [parts.exporter('out')],
    },
    { traces: 'in > > out' },
  );
  const own = aTenant({ projectId: 'proj_own', permissions: ['ingest:write'] });
  t.equal((await pipelineOf('in').admit(aHead(), own)).tenant, own);
  t.throws(() => pipelineOf('in').admit(aHead()), { code: 'unauthorized' });
});

t.test('reports finished, aborted and queued work after a shutdown', async (t) => {
  const parts = fakeParts();
  const finishing = Promise.withResolvers<void>();
  const { service, pipelineOf, clock, logger } = await running(
    t,
    parts,
    {
      receivers: [
        parts.receiver('in', {
          create(_settings, _config, pipeline) {
            parts.pipelines.set('in', [pipeline]);
            return {
              async start() {},
              shutdown: (deadline) =>
                new Promise((resolve) => {
                  deadline.addEventListener('abort', () => resolve());
                  finishing.resolve();
                }),
            };
          },
        }),
        parts.receiver('stuck', {
          create: () => ({ start: async () => {}, shutdown: () => new Promise<void>(() => {}) }),
        }),
      ],
      exporters: [parts.exporter('out', { shutdown: () => Promise.reject(new Error('no')) })],
    },
    { traces: 'in stuck > > out' },
    500,
  );
  parts.settings
    .get('out')
    ?.host.service(HEALTH_REGISTRY)
    .register('queue', () => ({ details: { queued_entries: 3, queued_items: 250 } }));
  parts.settings
    .get('out')
    ?.host.service(HEALTH_REGISTRY)
    .register('other', () => ({}));
  const pipeline = pipelineOf('in');
  t.ok(await pipeline.admitRead(aHead(), aTenant()), 'a read is not counted');
  const first = await pipeline.admit(aHead(), aTenant());
  await pipeline.admit(aHead(), aTenant());
  t.equal(service.health(false).ready, true);
  const stopped = service.shutdown();
  await finishing.promise;
  t.equal(service.health(false).ready, false, 'not ready while receivers drain');
  first.release();
  clock.advance(500);
  clock.advance(1000);
  t.match(await stopped, {
    inFlight: { finished: 1, aborted: 1 },
    queued: [{ id: 'queue', entries: 3, items: 250 }],
    leftBehind: ['receiver "stuck"'],
    lost: 0,
  });
  t.match(
    logger.lines.map(({ message }) => message),
    [
      'Everything is ready. Begin running and processing data.',
      'Component did not shut down in time',
      'Component failed to shut down',
      'Service shut down',
    ],
  );
});

t.test('a stop names the component that it waits for, and what is unhealthy', async (t) => {
  const parts = fakeParts();
  const stopping = Promise.withResolvers<void>();
  const { service, clock, logger } = await running(
    t,
    parts,
    {
      receivers: [parts.receiver('in')],
      exporters: [
        parts.exporter('out', {
          shutdown() {
            stopping.resolve();
            return new Promise<void>(() => {});
          },
        }),
      ],
    },
    { traces: 'in > > out' },
    20_000,
  );
  parts.settings
    .get('out')
    ?.host.service(HEALTH_REGISTRY)
    .register('store', () => ({ healthy: false, message: 'it does not answer' }));
  const stopped = service.shutdown();
  const waits = () => logger.lines.filter(({ message }) => message === 'Stop waits for component');
  await stopping.promise;
  clock.advance(2_999);
  t.same(waits(), []);
  clock.advance(1);
  const fields = { component: 'out', kind: 'exporter', unhealthy: ['store: it does not answer'] };
  t.match(waits(), [{ fields }]);
  clock.advance(17_000);
  clock.advance(1_000);
  t.match(await stopped, { leftBehind: ['exporter "out"'] });
  t.match(
    logger.lines.find(({ message }) => message === 'Component did not shut down in time'),
    { fields },
  );
});

t.test('finds offers of extensions and of the service by capability', async (t) => {
  const STORE = capability<{ answer: number }>('store');
  const GIVEN = capability<string>('given');
  const parts = fakeParts();
  const config = serviceConfig(
    {
      extensions: [parts.extension('sqlite', [offer(STORE, { answer: 42 })])],
      receivers: [parts.receiver('in')],
      exporters: [parts.exporter('out')],
    },
    { traces: 'in > > out' },
  );
  const service = await createService({
    config,
    logger: recordingLogger(),
    offers: [offer(GIVEN, 'by the command')],
  });
  t.teardown(() => service.shutdown());
  const host = parts.settings.get('out')?.host;
  t.same(host?.extension('sqlite', STORE), { answer: 42 });
  t.equal(host?.service(GIVEN), 'by the command');
  t.equal(host?.service(HEALTH).report(true).status, 'starting');
  t.throws(() => host?.extension('other', STORE), /exporter "out" needs the extension "other"/);
  t.throws(() => host?.extension('sqlite', GIVEN), /extension "sqlite" offers no given/);
  t.throws(() => host?.service(STORE), /the service offers no store/);
  t.same(service.offers(STORE), [{ id: 'sqlite', offer: { answer: 42 } }]);
  t.same(service.offers(GIVEN), []);
});
