import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import { type Capability, findOffer, offer } from '../../src/component/capability.ts';
import type {
  BatchProcessor,
  Component,
  DurableKind,
  Exporter,
  Extension,
  Host,
  RequestProcessor,
  Settings,
} from '../../src/component/component.ts';
import { ONLY_WORKER } from '../../src/component/component.ts';
import type {
  ConnectorFactory,
  ExporterFactory,
  Factory,
  ProcessorFactory,
} from '../../src/component/factory.ts';
import { FIRST_TOKENS, NO_TOKENS } from '../../src/component/first-tokens.ts';
import { createHealth, HEALTH, HEALTH_REGISTRY } from '../../src/component/health.ts';
import { PROCESS_END } from '../../src/component/process-end.ts';
import { CONTROL } from '../../src/control/pipelines.ts';
import { createGrpcListeners, GRPC_LISTENERS } from '../../src/grpc/listener.ts';
import { createListeners, LISTENERS } from '../../src/http/listener.ts';
import type { Batch, SealedBatch } from '../../src/model/batch.ts';
import { rawOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { requestContext } from '../../src/model/request-context.ts';
import { takeDropped } from '../../src/model/verbs.ts';
import { createQueues, QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import { PROJECT_READS } from '../../src/read/project-reads.ts';
import { allFactories } from '../../src/registry.ts';
import { STORE } from '../../src/store/store.ts';
import { nativeBatch, observationBatch, otlpBatch, received } from '../helper/batches.ts';
import { type FakeClock, fakeClock } from '../helper/clock.ts';
import { postgresDatabases } from '../helper/postgres-server.ts';
import { redisKeys } from '../helper/redis-server.ts';
import { recordingLogger, recordingMetrics } from '../helper/settings.ts';
import { createSink, type Sink, sinkPipeline } from '../helper/sink.ts';

const FACTORIES = await allFactories();

/** The rules for every registered component; docs/component.md has them in prose. */

// Every rule opens real stores, which takes longer than the usual limit on a busy machine.
t.setTimeout(120_000);

const NEVER = new AbortController().signal;
const folderOf = (factory: Factory) => `${factory.kind}s/${factory.type}`;

function jsonSchemaOf(factory: Factory) {
  return z.toJSONSchema(factory.config, { io: 'input', unrepresentable: 'any' });
}

/** The user chooses the keys of a map. */
function isMap(schema: unknown): boolean {
  const { additionalProperties } = (schema ?? {}) as { additionalProperties?: unknown };
  return typeof additionalProperties === 'object';
}

/** The parts of the README's examples that configure the component. */
function examplesOf(factory: Factory): Record<string, unknown>[] {
  const readme = readFileSync(join(folderOf(factory), 'README.md'), 'utf8');
  const texts = [...readme.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, text = '']) => text);
  return texts.flatMap((text) =>
    Object.entries(parseYaml(text) as Record<string, unknown>)
      .filter(([id]) => id.split('/')[0] === factory.type)
      .map(([, config]) => (config ?? {}) as Record<string, unknown>),
  );
}

/** The first example of the README. */
function exampleOf(factory: Factory): Record<string, unknown> {
  const [example] = examplesOf(factory);
  if (example === undefined) {
    throw new Error(`${folderOf(factory)}/README.md has no example of ${factory.type}`);
  }
  return example;
}

const redis = await redisKeys(t);
const postgres = await (await postgresDatabases(t)).database();

/** A destination without a listener. */
const CLOSED_URL = 'http://127.0.0.1:9';

/** The example with the test's directory and free ports. */
function runnable(value: unknown, directory: string, key = ''): unknown {
  if (key === 'endpoint') return /^http/.test(String(value)) ? CLOSED_URL : '127.0.0.1:0';
  if (key === 'url' && String(value).startsWith('redis:')) return redis.url;
  if (key === 'url' && /^(postgres:|\$\{env:DATABASE_URL)/.test(String(value))) return postgres;
  if (key === 'directory' || key === 'path') return join(directory, 'data', 'file');
  if (typeof value === 'string') return value.replace(/^\$\{.*\}$/, 'from-the-environment');
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const moved = Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, runnable(inner, directory, name)]),
  );
  return moved.url === redis.url ? { ...moved, key_prefix: redis.keyPrefix } : moved;
}

/** The runnable example of a component. Another program may listen at the default address of a receiver. */
function runnableOf(factory: Factory, directory: string): unknown {
  const example = exampleOf(factory);
  const listens =
    factory.kind === 'receiver' && 'endpoint' in (jsonSchemaOf(factory).properties ?? {});
  return runnable(listens ? { endpoint: '', ...example } : example, directory);
}

type Rig = {
  readonly settings: Settings;
  readonly clock: FakeClock;
  readonly config: unknown;
  readonly sink: Sink;
  create(): Promise<Component>;
};

/** One component with a service around it: real listeners, real extensions, a sink behind it. */
async function rigOf(t: Test, factory: Factory): Promise<Rig> {
  const directory = t.testdir();
  const clock = fakeClock();
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  const listeners = createListeners({
    logger,
    clock,
    metrics,
    limits: {
      in_flight_bytes: 64 * 1_048_576,
      client_share: 0.25,
      client_reserve: 0.125,
      requests_per_key: 1024,
      read_cache_bytes: 1_048_576,
    },
  });
  t.teardown(() => listeners.close());
  const health = createHealth(clock);
  const services = [
    offer(LISTENERS, listeners),
    offer(GRPC_LISTENERS, createGrpcListeners({ logger, clock, metrics })),
    offer(HEALTH, health),
    offer(HEALTH_REGISTRY, health),
    offer(PROCESS_END, { end() {} }),
    offer(FIRST_TOKENS, NO_TOKENS),
    offer(PROJECT_READS, { routes: [] }),
    offer(CONTROL, async () => null),
    offer(QUEUE_REGISTRY, createQueues()),
  ];
  const host: Host = {
    extension<T>(id: string, wanted: Capability<T>): T {
      const found = findOffer(extensions.get(id)?.offers ?? [], wanted);
      if (found === undefined) throw new Error(`no extension "${id}" offers ${wanted.name}`);
      return found;
    },
    service<T>(wanted: Capability<T>): T {
      const found = findOffer(services, wanted);
      if (found === undefined) throw new Error(`the service offers no ${wanted.name}`);
      return found;
    },
  };
  const settings: Settings = {
    id: factory.type,
    kind: factory.kind,
    logger,
    clock,
    metrics,
    host,
    worker: ONLY_WORKER,
  };
  const example = exampleOf(factory);
  const extensions = await startExtensions(t, example, settings, directory);
  for (const { offers } of extensions.values()) {
    // The store starts its thread for long reads with the first one, and keeps it.
    await findOffer(offers, STORE)?.keys.activeHashes();
  }
  const config = factory.config.parse(runnableOf(factory, directory));
  const sink = createSink();
  const pipeline = sinkPipeline(sink);
  return {
    settings,
    clock,
    config,
    sink,
    async create() {
      switch (factory.kind) {
        case 'receiver':
          return factory.create(settings, config, pipeline);
        case 'connector':
          return factory.create(settings, config, [pipeline]);
        default:
          return factory.create(settings, config);
      }
    },
  };
}

/** Starts the extensions that the example refers to by their type. */
async function startExtensions(
  t: Test,
  example: Record<string, unknown>,
  settings: Settings,
  directory: string,
) {
  const words = new Set(wordsOf(example));
  const started = new Map<string, Awaited<ReturnType<typeof startExtension>>>();
  for (const factory of FACTORIES) {
    if (factory.kind !== 'extension' || !words.has(factory.type)) continue;
    const extension = await startExtension(factory, settings, join(directory, factory.type));
    t.teardown(() => extension.shutdown(NEVER));
    started.set(factory.type, extension);
  }
  return started;
}

/** The values of the example at every depth. */
function wordsOf(value: unknown): unknown[] {
  return typeof value === 'object' && value !== null
    ? Object.values(value).flatMap(wordsOf)
    : [value];
}

async function startExtension(
  factory: Extract<Factory, { kind: 'extension' }>,
  settings: Settings,
  directory: string,
) {
  const config = factory.config.parse(runnable(exampleOf(factory), directory));
  const extension = await factory.create(
    { ...settings, id: factory.type, kind: 'extension' },
    config,
  );
  await extension.start();
  return extension;
}

/** The resources that keep the process alive. */
function handles(): string[] {
  const held = [
    'TCPServerWrap',
    'TCPSocketWrap',
    'PipeWrap',
    'FSEventWrap',
    'MessagePort',
    'Timeout',
  ];
  return process.getActiveResourcesInfo().filter((name) => held.includes(name));
}

/** Closing takes a few turns of the event loop, and many if a server has to confirm. */
async function settles(condition: () => boolean, turns = 50_000): Promise<boolean> {
  for (let turn = 0; turn < turns && !condition(); turn++) await new Promise(setImmediate);
  return condition();
}

function batchFor(kind: DurableKind): Batch {
  return kind === 'raw' ? nativeBatch(2) : observationBatch(nativeBatch(2));
}

t.test('types and aliases are unique within their kind', async (t) => {
  const names = FACTORIES.flatMap(({ kind, type, aliases = [] }) =>
    [type, ...aliases].map((name) => `${kind} ${name}`),
  );
  t.same([...new Set(names)], names);
});

for (const factory of FACTORIES) {
  t.test(`${factory.kind} ${factory.type}`, async (t) => {
    t.test('has a description, and so has each of its fields', async (t) => {
      t.match(factory.type, /^[a-z][a-z0-9_]*$/);
      t.match(factory.description, /^[A-Z].{10,140}[^.]$/, 'a fragment without a final stop');
      const readme = readFileSync(join(folderOf(factory), 'README.md'), 'utf8');
      for (const [name, field] of Object.entries(jsonSchemaOf(factory).properties ?? {})) {
        const { description } = field as { description?: string };
        t.match(description, /^[A-Z`"].*\.$/s, `${name} is described by sentences`);
        t.match(readme, new RegExp(`\`${name}[.\`]`), `${name} is in the README`);
      }
    });

    t.test('accepts every example of its README', async (t) => {
      for (const example of examplesOf(factory)) {
        const { error } = factory.config.safeParse(runnable(example, t.testdir()));
        t.same(error?.issues ?? [], [], JSON.stringify(example));
      }
    });

    t.test('accepts its defaults, or names the missing field', async (t) => {
      const fields = new Set(Object.keys(jsonSchemaOf(factory).properties ?? {}));
      for (const { path, message } of factory.config.safeParse({}).error?.issues ?? []) {
        const named = [...path.map(String), ...(message.match(/\w+/g) ?? [])];
        t.ok(
          named.some((word) => fields.has(word)),
          `"${message}" names the missing field`,
        );
      }
    });

    t.test('refuses an unknown key at every depth', async (t) => {
      const refuse = (config: unknown, path: string[]) => {
        const { error } = factory.config.safeParse(config);
        const found = error?.issues.find(({ code }) => code === 'unrecognized_keys');
        t.same(found?.path, path, `in ${path.join('.') || 'the component'}`);
      };
      const example = exampleOf(factory);
      refuse({ ...example, no_such_key: 1 }, []);
      for (const [name, value] of Object.entries(example)) {
        if (typeof value !== 'object' || value === null || Array.isArray(value)) continue;
        if (isMap(jsonSchemaOf(factory).properties?.[name])) continue;
        refuse({ ...example, [name]: { ...value, no_such_key: 1 } }, [name]);
      }
    });

    if (factory.kind === 'extension') {
      t.test('offers the capabilities that its factory provides', async (t) => {
        const rig = await rigOf(t, factory);
        const extension = (await rig.create()) as Extension;
        t.same(
          extension.offers.map(({ capability }) => capability.name),
          factory.provides.map(({ name }) => name),
        );
      });
    }

    t.test('starts and stops twice, and leaves nothing open', async (t) => {
      const rig = await rigOf(t, factory);
      await settles(() => false, 20);
      const before = handles();
      const timers = rig.clock.pending();
      for (let round = 0; round < 2; round++) {
        const component = await rig.create();
        await component.start();
        await component.shutdown(NEVER);
        await component.shutdown(NEVER);
      }
      t.equal(rig.clock.pending(), timers, 'no timer is pending');
      await settles(() => handles().length <= before.length);
      t.same(handles().sort(), before.sort());
    });

    t.test('shuts down without a start', async (t) => {
      const rig = await rigOf(t, factory);
      const before = handles();
      const component = await rig.create();
      await component.shutdown(AbortSignal.abort());
      await settles(() => handles().length <= before.length);
      t.same(handles().sort(), before.sort());
    });

    if (factory.kind === 'exporter' || factory.kind === 'connector') takesOver(t, factory);
    if (factory.kind === 'connector') delivers(t, factory);
    if (factory.kind === 'processor') {
      if (factory.data.accepts[0] === 'received') decides(t, factory);
      else transforms(t, factory);
    }
  });
}

/** Processors of requests: valid items of every format are kept or dropped, never rejected. */
function decides(t: Test, factory: ProcessorFactory): void {
  t.test('rejects no valid item', async (t) => {
    const rig = await rigOf(t, factory);
    const processor = (await rig.create()) as RequestProcessor;
    await processor.start();
    t.teardown(() => processor.shutdown(NEVER));
    t.equal(processor.authenticate !== undefined, factory.tenancy?.authenticates === true);
    for (const sealed of [nativeBatch(2), otlpBatch(2), otlpBatch(2, { format: 'otlp_json' })]) {
      const batch = received(sealed);
      await processor.process?.(batch, requestContext());
      const dropped = [...(takeDropped(batch)?.values() ?? [])].reduce((sum, n) => sum + n, 0);
      t.same([batch.items + dropped, batch.rejections], [2, []], batch.format);
    }
  });
}

/** Processors of sealed data: the batch is frozen, and stays as it is. */
function transforms(t: Test, factory: ProcessorFactory): void {
  t.test('passes on the kind that it declares', async (t) => {
    const rig = await rigOf(t, factory);
    const processor = (await rig.create()) as BatchProcessor;
    await processor.start();
    t.teardown(() => processor.shutdown(NEVER));
    const { emits } = factory.data;
    for (const kind of factory.data.accepts) {
      if (kind === 'received') continue;
      for (const batch of kind === 'raw' ? [nativeBatch(2), otlpBatch(2)] : [batchFor(kind)]) {
        const result = await processor.process(batch);
        t.equal(result.kind, emits === 'same' ? kind : emits);
        t.equal(rawOf(result), rawOf(batch), 'the sealed batch is the same');
      }
    }
  });
}

/** Exporters and connectors: `consume` settles who has the batch, and the batch is frozen. */
function takesOver(t: Test, factory: ExporterFactory | ConnectorFactory): void {
  t.test('takes over batches that it accepts, and none after its shutdown', async (t) => {
    const rig = await rigOf(t, factory);
    const exporter = (await rig.create()) as Exporter;
    await exporter.start();
    for (const kind of factory.data.accepts) await exporter.consume(batchFor(kind));
    await exporter.shutdown(NEVER);
    for (const kind of factory.data.accepts) {
      await t.rejects(exporter.consume(batchFor(kind)), { name: /^(Retryable)?Error$/ });
    }
  });
}

/** Connectors: every batch that they took over arrives, whatever the pipelines behind them do. */
function delivers(t: Test, factory: ConnectorFactory): void {
  async function running(t: Test) {
    const rig = await rigOf(t, factory);
    const connector = (await rig.create()) as Exporter;
    await connector.start();
    t.teardown(() => connector.shutdown(NEVER));
    const took: string[] = [];
    const send = async (count: number) => {
      const batches: SealedBatch[] = Array.from({ length: count }, () => nativeBatch(1));
      await Promise.all(
        batches.map((batch) =>
          // A connector without a queue takes over only batches that the pipelines behind it took over.
          connector.consume(batch).then(
            () => took.push(batch.id),
            () => undefined,
          ),
        ),
      );
    };
    const arrives = (count: number) =>
      settles(() => {
        rig.clock.advance(1_000);
        return rig.sink.batches.length >= count;
      }, 1_000_000);
    return { ...rig, took, send, arrives };
  }

  t.test('delivers every batch once', async (t) => {
    const { send, arrives, sink, took } = await running(t);
    await send(20);
    t.equal(took.length, 20);
    await arrives(took.length);
    t.same(sink.ids().sort(), took.sort());
  });

  t.test('delivers later after retryable failures', async (t) => {
    const { send, arrives, sink, took } = await running(t);
    sink.behave('retryable');
    await send(5);
    t.ok([0, 5].includes(took.length), 'a queue takes over all, a connector without one none');
    await settles(() => false, 50);
    t.equal(sink.batches.length, 0);
    sink.behave('ok');
    await arrives(took.length);
    t.same(sink.ids().sort(), took.sort());
  });

  t.test('sets aside batches that can never be delivered, and continues', async (t) => {
    const { send, arrives, sink, took } = await running(t);
    const asked = new Set<string>();
    sink.behave((batch) => {
      asked.add(rawOf(batch).id);
      throw new PermanentError('test', 'never');
    });
    await send(3);
    await settles(() => asked.size === 3, 1_000_000);
    sink.behave('ok');
    const before = took.length;
    await send(5);
    await arrives(took.length - before);
    t.same(sink.ids().sort(), took.slice(before).sort());
  });

  t.test('loses and repeats no batch while some deliveries fail', async (t) => {
    const { send, arrives, sink, took } = await running(t);
    let turn = 0;
    sink.behave(() => {
      if (turn++ % 3 !== 0) throw new RetryableError('test', 'now and then');
    });
    await send(15);
    await arrives(took.length);
    t.same(sink.ids().sort(), took.sort());
  });
}
