import { z } from 'zod';
import { allowedHosts } from '../schema/allowed-hosts.ts';
import { byteSize, duration, endpoint } from '../schema/fields.ts';
import { serverTls } from '../schema/server-tls.ts';
import {
  needsTrustedProxies,
  proxyProtocol,
  trustedTcpProxies,
} from '../schema/trusted-proxies.ts';

const ids = (what: string) => z.array(z.string()).default([]).describe(what);

const MAX_WORKERS = 256;

const pipeline = z
  .strictObject({
    receivers: ids('Sources of data: receivers, or connectors that other pipelines feed.'),
    processors: ids('Processors, in the order in which they run.'),
    exporters: ids('Destinations of data: exporters, or connectors that feed other pipelines.'),
  })
  .describe('A path from receivers through processors to exporters.');

/** The `service` section. */
export const serviceSchema = z.strictObject({
  extensions: ids('Extensions to start. An extension starts before those that refer to it.'),
  pipelines: z
    .record(z.string(), pipeline)
    .default({})
    .describe('Pipelines by id: `traces` or `traces/name`.'),
  telemetry: z
    .strictObject({
      logs: z
        .strictObject({
          level: z
            .enum(['debug', 'info', 'warn', 'error'])
            .default('info')
            .describe('Lowest severity to log.'),
          encoding: z
            .enum(['console', 'json'])
            .default('console')
            .describe('Lines for people, or one JSON object per line.'),
          repeated_lines: z
            .int()
            .min(1)
            .default(100)
            .describe(
              'Lines with the same component and text in 10 s, except those of level debug. The next line after that time has the number of suppressed ones.',
            ),
        })
        .prefault({})
        .describe('Logs of the service, on stderr.'),
      metrics: z
        .strictObject({
          level: z
            .enum(['none', 'normal'])
            .default('normal')
            .describe('Whether metrics are served.'),
          address: endpoint('127.0.0.1:8888').describe('Address of `/metrics` for Prometheus.'),
          allowed_hosts: allowedHosts(),
          trusted_proxies: trustedTcpProxies(),
          proxy_protocol: proxyProtocol(),
          tls: serverTls().optional().describe('Serves https. Default: plain http.'),
        })
        .superRefine(needsTrustedProxies)
        .prefault({})
        .describe('Metrics of the service.'),
    })
    .prefault({})
    .describe('Logs and metrics of the service.'),
  workers: z
    .union([z.literal('auto'), z.int().min(1).max(MAX_WORKERS)], {
      error: `expected a whole number from 1 to ${MAX_WORKERS}, or auto`,
    })
    .default(1)
    .describe(
      'Processes that share the ports, each with queues of its own; `auto` is one per core. Not for components that belong to one process, such as an SQLite store.',
    ),
  limits: z
    .strictObject({
      in_flight_bytes: byteSize('96MiB').describe(
        'Bytes of requests in memory at once, over all receivers of a process. A request beyond it waits without being read, 8 s at most, and is then refused with 503.',
      ),
      read_bytes: byteSize('128MiB').describe(
        'Bytes of reading requests in memory at once, beside `in_flight_bytes`; a project gets at most seven eighths. A request beyond it is refused with 503.',
      ),
      reads_per_key: z
        .int()
        .min(1)
        .max(10_000)
        .default(32)
        .describe(
          'Reading requests of a key in progress, from the head of the request until the client has the whole answer. Further ones are refused with 429.',
        ),
      concurrent_reads: z
        .int()
        .min(1)
        .max(64)
        .default(4)
        .describe(
          'Reading requests that use a store at once. Others wait, and projects take turns; a project gets at most all but one.',
        ),
      concurrent_exports: z
        .int()
        .min(1)
        .max(64)
        .default(4)
        .describe(
          'Exports in progress. Further ones are refused with 503. A project gets at most seven eighths of them, and is refused with 429 beyond.',
        ),
      exports_per_key: z
        .int()
        .min(1)
        .max(64)
        .default(2)
        .describe(
          'Exports of a key in progress, which also count as reading requests. Further ones are refused with 429.',
        ),
      page_bytes: byteSize('8MiB').describe(
        'Bytes of items after which a page of a reading answer ends before its `limit`, with a cursor.',
      ),
      page_time: duration('60ms').describe(
        'Work of the store after which a page of traces ends with those found so far, with `partial: true` and a cursor. In SQLite it is processor time; in Postgres the time of the statements.',
      ),
      wait_timeout: duration('30s').describe(
        'The longest `wait` of a reading request. A longer one is refused with 400.',
      ),
      waits_per_key: z
        .int()
        .min(1)
        .max(10_000)
        .default(8)
        .describe(
          'Reading requests of a key that wait for a trace at once. Further ones are refused with 429.',
        ),
      waits: z
        .int()
        .min(1)
        .max(10_000)
        .default(64)
        .describe(
          'Reading requests that wait for a trace at once, of a process. Further ones are refused with 503. A project gets at most seven eighths of them, and is refused with 429 beyond.',
        ),
      streams_per_key: z
        .int()
        .min(1)
        .max(10_000)
        .default(4)
        .describe('Streams of traces of a key at once. Further ones are refused with 429.'),
      streams_per_project: z
        .int()
        .min(1)
        .max(10_000)
        .default(16)
        .describe('Streams of traces of a project at once. Further ones are refused with 429.'),
      streams: z
        .int()
        .min(1)
        .max(10_000)
        .default(64)
        .describe('Streams of traces at once, of a process. Further ones are refused with 503.'),
      read_cache_bytes: byteSize('32MiB').describe(
        'Inflated bytes of stored batches that are kept for further reading requests, beside `read_bytes`: half for batches above 512 KiB, half for others.',
      ),
      page_timeout: duration('10s').describe(
        'Time after which a page of a reading answer ends with the items found so far, and with a cursor. Waiting for the store, for other projects and for the client counts.',
      ),
      scores_per_trace: z
        .int()
        .min(1)
        .max(10_000)
        .default(100)
        .describe(
          'Scores of a trace, those of its observations included. A further one is refused with 409; a score with the id of a stored one replaces it.',
        ),
      stats_points: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(20_000)
        .describe(
          'Points that an answer of `/stats` may have: groups times steps of time. A request for more is refused with 400.',
        ),
      client_share: z
        .number()
        .gt(0)
        .max(1)
        .default(0.25)
        .describe(
          'Part of `in_flight_bytes` that a key, a project and an address may each hold while others want it. Beyond it, requests wait and then get 503.',
        ),
      client_reserve: z
        .number()
        .min(0)
        .lt(1)
        .default(0.125)
        .describe('Part of `in_flight_bytes` that only clients within their shares use.'),
      requests_per_key: z
        .int()
        .min(1)
        .default(512)
        .describe('Most requests of a key in progress; more are refused with 503.'),
    })
    .prefault({})
    .describe('Limits of a process as a whole.'),
  repeated_requests: z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('Whether a repeated request gets the first answer and counts nothing.'),
      window: duration('10m').describe('How long a request is remembered.'),
      max_entries: z
        .int()
        .min(1)
        .default(1_000_000)
        .describe(
          'Requests that a process looks up and remembers in one window, a project at most as many as are left for others. Further requests are accepted as often as they are sent.',
        ),
    })
    .prefault({})
    .describe(
      'Recognizes a retry without `Idempotency-Key`: the same project, path, type and bytes. Needs a pipeline with a durable queue among its exporters.',
    ),
  shutdown_timeout: duration('20s').describe('Deadline of a stop.'),
});

export type ServiceSection = z.output<typeof serviceSchema>;
