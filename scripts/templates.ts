import type { ComponentKind } from '../src/component/component.ts';

/** A new component, in the names that its files use. */
export type ComponentName = {
  readonly kind: ComponentKind;
  /** `processors` */
  readonly section: string;
  /** The type in the configuration, and the folder: `trace_sampling`. */
  readonly type: string;
  /** `TraceSampling` */
  readonly pascal: string;
};

/** The files of a new component by path; together they pass the type check, lint and the contract suite. */
export function filesOf(name: ComponentName): Record<string, string> {
  const { kind, section, type } = name;
  const folder = `${section}/${type}`;
  return {
    [`${folder}/config.ts`]: CONFIGS[kind]?.(name) ?? emptyConfig(name),
    [`${folder}/factory.ts`]: factory(name),
    [`${folder}/${kind}.ts`]: ROLES[kind](name),
    [`${folder}/README.md`]: readme(name),
    [`test/${folder}/${kind}.test.ts`]: TESTS[kind](name),
  };
}

type Template = (name: ComponentName) => string;

const capitalized = (text: string) => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/** `as` and the name that a test imports `create…` by. */
const creator = ({ kind }: ComponentName) => `create${capitalized(kind)}`;

const emptyConfig: Template = ({ pascal }) => `import { z } from 'zod';

export const config = z.strictObject({});

export type ${pascal}Config = z.output<typeof config>;
`;

const CONFIGS: Partial<Record<ComponentKind, Template>> = {
  receiver: ({ pascal }) => `import { z } from 'zod';
import { listenerFields, projectField } from '../../src/http/config.ts';
import { endpoint } from '../../src/schema/fields.ts';

export const config = z.strictObject({
  endpoint: endpoint('127.0.0.1:4318').describe(
    'Address to listen on. Receivers with the same endpoint share one listener.',
  ),
  ...projectField,
  ...listenerFields,
});

export type ${pascal}Config = z.output<typeof config>;
`,
};

const FLAGS: Readonly<Record<ComponentKind, string>> = {
  receiver: '  tenancy: { hasProject: true },\n',
  processor: "  data: { accepts: ['received'], emits: 'same' },\n",
  exporter: "  data: { accepts: ['raw', 'observations'] },\n",
  connector: "  data: { accepts: ['raw', 'observations'], emits: 'same' },\n",
  extension: '  provides: [],\n',
};

const factory: Template = (
  name,
) => `import { define${capitalized(name.kind)} } from '../../src/component/factory.ts';
import { config } from './config.ts';

export const factory = define${capitalized(name.kind)}({
  kind: '${name.kind}',
  type: '${name.type}',
  stability: 'development',
  description: 'Describes the ${name.kind} in one line without a final stop',
  config,
${FLAGS[name.kind]}  create: async (...given) => (await import('./${name.kind}.ts')).${creator(name)}(...given),
});
`;

const readme: Template = ({ kind, type }) => `# ${type} ${kind}

The purpose of the ${kind}, and what a user has to know to run it.

\`\`\`yaml
${type}:
\`\`\`

<!-- generated: fields -->
<!-- end -->
`;

const ROLES: Readonly<Record<ComponentKind, Template>> = {
  receiver: ({
    type,
    pascal,
  }) => `import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { nativeProtocol } from '../../src/http/native-protocol.ts';
import { httpReceiver, projectTenant } from '../../src/http/receiver.ts';
import type { ${pascal}Config } from './config.ts';

/**
 *   POST /api/v1/${type} ─▶ src/http/ingest.ts ─▶ pipeline ─▶ 202 with the native envelope
 */
export function createReceiver(
  settings: Settings,
  config: ${pascal}Config,
  pipeline: Pipeline,
): Receiver {
  return httpReceiver(settings, {
    endpoint: config.endpoint,
    listener: config,
    pipeline,
    fallback: projectTenant(config.project),
    // An HttpProtocol reads the body and renders the answers; src/http/native-protocol.ts is one.
    ingestRoutes: [
      { method: 'POST', path: '/api/v1/${type}', protocol: nativeProtocol('native') },
    ],
  });
}
`,
  processor: ({
    pascal,
  }) => `import type { RequestProcessor, Settings } from '../../src/component/component.ts';
import { isOpen } from '../../src/model/verbs.ts';
import type { ${pascal}Config } from './config.ts';

/**
 *   item ─▶ open? ─▶ kept
 */
export function createProcessor(_settings: Settings, _config: ${pascal}Config): RequestProcessor {
  return {
    async start() {},
    async shutdown() {},
    process(batch) {
      for (let item = 0; item < batch.index.count; item++) {
        if (!isOpen(batch, item)) continue;
        // Decide here: reject(batch, item, …) or drop(batch, item, …).
      }
    },
  };
}
`,
  exporter: ({
    pascal,
  }) => `import type { Exporter, Settings } from '../../src/component/component.ts';
import { rawOf } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { ${pascal}Config } from './config.ts';

/**
 *   batch ─▶ destination ─▶ resolved
 */
export function createExporter({ logger }: Settings, _config: ${pascal}Config): Exporter {
  let isStopped = false;
  return {
    async start() {},
    async shutdown() {
      isStopped = true;
    },
    async consume(batch) {
      if (isStopped) throw new RetryableError('shutting_down', 'The exporter is shut down.');
      // Resolve when the destination has the batch; until then the queue in front keeps it.
      logger.debug({ batch: rawOf(batch).id }, 'Batch delivered');
    },
  };
}
`,
  connector: ({
    pascal,
  }) => `import type { Connector, Pipeline, Settings } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { ${pascal}Config } from './config.ts';

/**
 *   pipelines in front ─▶ consume ─▶ every pipeline behind
 */
export function createConnector(
  _settings: Settings,
  _config: ${pascal}Config,
  pipelines: readonly Pipeline[],
): Connector {
  let isStopped = false;
  return {
    async start() {},
    async shutdown() {
      isStopped = true;
    },
    async consume(batch) {
      if (isStopped) throw new RetryableError('shutting_down', 'The connector is shut down.');
      await Promise.all(pipelines.map((pipeline) => pipeline.consume(batch)));
    },
  };
}
`,
  extension: ({
    pascal,
  }) => `import type { Extension, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { ${pascal}Config } from './config.ts';

/**
 *   start ─▶ health ─▶ shutdown
 */
export function createExtension({ id, host }: Settings, _config: ${pascal}Config): Extension {
  let unregister = (): void => {};
  return {
    // Each capability of the factory's \`provides\` has its offer here.
    offers: [],
    async start() {
      unregister = host.service(HEALTH_REGISTRY).register(id, () => ({ healthy: true }));
    },
    async shutdown() {
      unregister();
    },
  };
}
`,
};

const imports = ({ kind, section, type }: ComponentName) =>
  `import { config } from '../../../${section}/${type}/config.ts';
import { create${capitalized(kind)} } from '../../../${section}/${type}/${kind}.ts';
`;

const TESTS: Readonly<Record<ComponentKind, Template>> = {
  receiver: (name) => `import t from 'tap';
${imports(name)}import { offer } from '../../../src/component/capability.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { NO_DEADLINE, testListeners } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

t.test('passes a request to its pipeline', async (t) => {
  const listeners = testListeners();
  t.teardown(() => listeners.close());
  const host = fakeHost({ services: [offer(LISTENERS, listeners)] });
  const sink = createSink();
  const receiver = createReceiver(
    testSettings('receiver', '${name.type}', { host }),
    config.parse({ endpoint: '127.0.0.1:0', project: 'proj_test' }),
    sinkPipeline(sink),
  );
  await receiver.start();
  const [served] = listeners.served();
  const answer = await fetch(\`\${served?.url}/api/v1/${name.type}\`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: nativeBatch(2).body,
  });
  t.equal(answer.status, 202);
  t.match(sink.batches, [{ items: 2, tenant: { projectId: 'proj_test' } }]);
  await receiver.shutdown(NO_DEADLINE);
});
`,
  processor: (name) => `import t from 'tap';
${imports(name)}import { requestContext } from '../../../src/model/request-context.ts';
import { nativeBatch, received } from '../../helper/batches.ts';
import { testSettings } from '../../helper/settings.ts';

t.test('keeps every item', async (t) => {
  const processor = createProcessor(testSettings('processor', '${name.type}'), config.parse({}));
  const batch = received(nativeBatch(3));
  await processor.process?.(batch, requestContext());
  t.equal(batch.items, 3);
});
`,
  exporter: (name) => `import t from 'tap';
${imports(name)}import { nativeBatch } from '../../helper/batches.ts';
import { testSettings } from '../../helper/settings.ts';

t.test('takes over a batch', async (t) => {
  const settings = testSettings('exporter', '${name.type}');
  const exporter = createExporter(settings, config.parse({}));
  const batch = nativeBatch(2);
  await exporter.consume(batch);
  t.match(settings.logger.lines, [{ fields: { batch: batch.id } }]);
});
`,
  connector: (name) => `import t from 'tap';
${imports(name)}import { nativeBatch } from '../../helper/batches.ts';
import { testSettings } from '../../helper/settings.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

t.test('passes a batch to every pipeline', async (t) => {
  const sinks = [createSink(), createSink()];
  const pipelines = sinks.map((sink) => sinkPipeline(sink));
  const connector = createConnector(
    testSettings('connector', '${name.type}'),
    config.parse({}),
    pipelines,
  );
  const batch = nativeBatch(2);
  await connector.consume(batch);
  for (const sink of sinks) t.same(sink.ids(), [batch.id]);
});
`,
  extension: (name) => `import t from 'tap';
${imports(name)}import { offer } from '../../../src/component/capability.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

t.test('reports its health while it runs', async (t) => {
  const health = createHealth(fakeClock());
  const host = fakeHost({ services: [offer(HEALTH_REGISTRY, health)] });
  const extension = createExtension(
    testSettings('extension', '${name.type}', { host }),
    config.parse({}),
  );
  await extension.start();
  t.match(health.report(true).components, [{ id: '${name.type}', healthy: true }]);
  await extension.shutdown(new AbortController().signal);
  t.same(health.report(true).components, []);
});
`,
};
