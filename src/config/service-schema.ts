import { z } from 'zod';
import { byteSize, duration, endpoint } from '../schema/fields.ts';
import { serverTls } from '../schema/server-tls.ts';

const ids = (what: string) => z.array(z.string()).default([]).describe(what);

const MAX_WORKERS = 256;

const pipeline = z
  .strictObject({
    receivers: ids('Where data comes from: receivers, or connectors that other pipelines feed.'),
    processors: ids('What is done to the data, in this order.'),
    exporters: ids('Where data goes: exporters, or connectors that feed other pipelines.'),
  })
  .describe('A way from receivers through processors to exporters.');

/** The `service` section. */
export const serviceSchema = z.strictObject({
  extensions: ids('Extensions to start; what another one refers to is started before it.'),
  pipelines: z
    .record(z.string(), pipeline)
    .default({})
    .describe('Pipelines by id: `traces`, or `traces/name`.'),
  telemetry: z
    .strictObject({
      logs: z
        .strictObject({
          level: z
            .enum(['debug', 'info', 'warn', 'error'])
            .default('info')
            .describe('The least severe line that is written.'),
          encoding: z
            .enum(['console', 'json'])
            .default('console')
            .describe('Lines for people, or one JSON object a line.'),
        })
        .prefault({})
        .describe("The service's own log, on stderr."),
      metrics: z
        .strictObject({
          level: z
            .enum(['none', 'normal'])
            .default('normal')
            .describe('Whether metrics are served.'),
          address: endpoint('127.0.0.1:8888').describe('Where Prometheus finds `/metrics`.'),
          tls: serverTls().optional().describe('Serves https; plain http where it is left out.'),
        })
        .prefault({})
        .describe("The service's own metrics."),
    })
    .prefault({})
    .describe('What the service tells about itself.'),
  workers: z
    .union([z.literal('auto'), z.int().min(1).max(MAX_WORKERS)], {
      error: `expected a whole number from 1 to ${MAX_WORKERS}, or auto`,
    })
    .default(1)
    .describe(
      'Processes that serve the same ports, each with queues of its own; `auto` is one for each core. For pipelines without anything that belongs to one process, such as an SQLite store.',
    ),
  limits: z
    .strictObject({
      in_flight_bytes: byteSize('96MiB').describe(
        'Bytes of requests held in memory at once, over all receivers; what exceeds it is refused with 503. Each worker has its own.',
      ),
    })
    .prefault({})
    .describe('Limits of each process as a whole.'),
  shutdown_timeout: duration('20s').describe('How long a stop may take before it is cut short.'),
});

export type ServiceSection = z.output<typeof serviceSchema>;
