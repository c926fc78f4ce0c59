import { z } from 'zod';
import { factory as file } from '../../../exporters/file/factory.ts';
import { factory as fileStorage } from '../../../extensions/file_storage/factory.ts';
import { factory as cost } from '../../../processors/cost/factory.ts';
import { factory as redaction } from '../../../processors/redaction/factory.ts';
import {
  defineConnector,
  defineExporter,
  defineExtension,
  defineProcessor,
  defineReceiver,
} from '../../../src/component/factory.ts';
import type { Registry } from '../../../src/config/registry.ts';
import { QUEUE_STORAGE } from '../../../src/queue/queue.ts';
import { byteSize, duration, endpoint, ref, secret } from '../../../src/schema/fields.ts';
import { mark } from '../../../src/schema/marks.ts';
import { STORE } from '../../../src/store/store.ts';

const never = () => {
  throw new Error('a configuration is checked without creating anything');
};
const common = { stability: 'development', description: 'For tests.', create: never } as const;

/** Components only for these tests: their schemas use every shared piece once. */
export const REGISTRY: Registry = [
  defineReceiver({
    ...common,
    kind: 'receiver',
    type: 'web',
    tenancy: { hasProject: true },
    config: z.strictObject({
      endpoint: endpoint('127.0.0.1:4318').describe('Address to listen on.'),
      project: z.string().optional().describe('The project of received data.'),
      read_timeout: duration('60s').describe('Time for a body.'),
      protocols: z
        .strictObject({
          http: z.strictObject({ max_body: byteSize('25MiB') }).optional(),
          grpc: z
            .strictObject({
              endpoint: mark(endpoint('127.0.0.1:4317'), { listens: 'grpc' }),
            })
            .optional(),
        })
        .prefault({ http: {} }),
    }),
  }),
  defineReceiver({
    ...common,
    kind: 'receiver',
    type: 'hook',
    tenancy: { hasProject: true },
    data: { receivesEvents: true },
    config: z.strictObject({
      endpoint: endpoint('127.0.0.1:4318'),
      project: z.string().optional(),
    }),
  }),
  defineReceiver({ ...common, kind: 'receiver', type: 'jobs', config: z.strictObject({}) }),
  defineProcessor({
    ...common,
    kind: 'processor',
    type: 'auth',
    data: { accepts: ['received'], emits: 'same' },
    tenancy: {
      authenticates: true,
      projects: ({ keys }) => keys?.map(({ project }) => project) ?? 'any',
    },
    config: z.strictObject({
      store: ref(STORE).optional(),
      keys: z
        .array(
          z.strictObject({
            token: secret().describe('The token of the client.'),
            project: z.string().describe('The project of the token.'),
            permissions: z.array(z.enum(['ingest:write', 'traces:read'])).default([]),
          }),
        )
        .optional(),
    }),
  }),
  defineProcessor({
    ...common,
    kind: 'processor',
    type: 'validation',
    data: { accepts: ['received'], emits: 'same' },
    config: z.strictObject({ rate: z.number().min(0).max(1).default(1) }),
  }),
  defineProcessor({
    ...common,
    kind: 'processor',
    type: 'quotas',
    data: { accepts: ['received'], emits: 'same', reservesUsage: true },
    config: z.strictObject({}),
  }),
  defineProcessor({
    ...common,
    kind: 'processor',
    type: 'normalization',
    data: { accepts: ['raw'], emits: 'observations' },
    config: z.strictObject({}),
  }),
  redaction,
  cost,
  file,
  fileStorage,
  defineConnector({
    ...common,
    kind: 'connector',
    type: 'disk_queue',
    data: { accepts: ['raw'], emits: 'raw' },
    config: z.strictObject({ store: ref(QUEUE_STORAGE).optional() }),
  }),
  defineConnector({
    ...common,
    kind: 'connector',
    type: 'forward',
    data: { accepts: ['raw', 'observations'], emits: 'same' },
    config: z.strictObject({}),
  }),
  defineExporter({
    ...common,
    kind: 'exporter',
    type: 'sqlite',
    data: { accepts: ['observations'] },
    config: z.strictObject({ store: ref(STORE).default('sqlite') }),
  }),
  defineExporter({
    ...common,
    kind: 'exporter',
    type: 'forward',
    data: { accepts: ['raw', 'observations'] },
    config: z.strictObject({}),
  }),
  defineExporter({
    ...common,
    kind: 'exporter',
    type: 'otlphttp',
    aliases: ['otlp_http'],
    data: {
      accepts: ['raw', 'observations'],
      joinsEvents: ({ url }) => url.startsWith('http://join'),
    },
    tenancy: { mixesProjects: ({ mix }) => (mix === false ? 'mix' : undefined) },
    config: z.strictObject({
      url: z.string().default('http://127.0.0.1:1'),
      headers: z.record(z.string(), secret()).default({}),
      mix: z.boolean().optional(),
    }),
  }),
  defineExtension({
    ...common,
    kind: 'extension',
    type: 'sqlite',
    provides: [STORE, QUEUE_STORAGE],
    placement: {
      oneProcess: ({ directory }) => `the store in ${directory} belongs to one process`,
    },
    config: z.strictObject({ directory: z.string().default('./data') }),
  }),
  defineExtension({
    ...common,
    kind: 'extension',
    type: 'file_storage',
    provides: [QUEUE_STORAGE],
    config: z.strictObject({ directory: z.string() }),
  }),
  defineExtension({
    ...common,
    kind: 'extension',
    type: 'admin',
    provides: [],
    config: z.strictObject({ store: ref(STORE), endpoint: endpoint('127.0.0.1:4319') }),
  }),
];
