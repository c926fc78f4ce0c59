import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { parse } from 'yaml';
import { runtimeOf } from '../clients/cases.ts';
import { COLLECTOR_CASE } from '../clients/collector-case.ts';
import { Lab as Clients } from '../clients/lab.ts';
import { eventually } from '../e2e/client.ts';
import { type Daemon, prepareDaemon, type Tree, total } from '../e2e/daemon.ts';
import { encodeRequest } from '../helper/otlp-proto.ts';
import { assertSameSpans, canonicalSpans } from './canonical.ts';
import { post } from './chains.ts';
import { arrived, fileCollector, hop, type Lab } from './lab.ts';
import type { PeerConfig } from './peer.ts';
import { everyField, smallRequest } from './sample.ts';
import { exportSpans, type OtlpEndpoints, SDK_SPANS } from './sdk.ts';

const PAGE = fileURLToPath(
  new URL('../../docs/with-the-opentelemetry-collector.md', import.meta.url),
);
const CLIENTS_PAGE = fileURLToPath(
  new URL('../../docs/clients/opentelemetry-collector.md', import.meta.url),
);
const CERTIFICATES = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));
const PROTOBUF = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' };

/** A configuration of the page, with the paths and addresses of the reader's machines replaced. */
function fragment(
  name: string,
  places: Readonly<Record<string, string>>,
  page: string = PAGE,
): Tree {
  const blocks = readFileSync(page, 'utf8').matchAll(/<!-- (.+) -->\n```yaml\n([\s\S]*?)```/g);
  const found = [...blocks].find(([, title]) => title === name);
  if (found === undefined) throw new Error(`the page has no configuration named "${name}"`);
  let text = found[2] ?? '';
  for (const [written, real] of Object.entries(places)) {
    if (!text.includes(written)) throw new Error(`"${name}" has no ${written}`);
    text = text.replaceAll(written, real);
  }
  return parse(text) as Tree;
}

/** A Collector with the page's batches fits the default limits of tracectl. */
export async function collectorInFront(lab: Lab): Promise<void> {
  const daemon = await startDaemon(lab, {});
  const [http, grpc] = [await lab.port(), await lab.port()];
  await lab.collector(
    'front',
    quiet(
      fragment('collector, in front, HTTP', {
        '/var/lib/otelcol/queue': lab.place('front-queue'),
        '0.0.0.0:4317': `127.0.0.1:${grpc}`,
        '0.0.0.0:4318': `127.0.0.1:${http}`,
        'http://tracectl:4318': daemon.base,
        '${env:TRACECTL_KEY}': daemon.key,
      }),
    ),
  );
  await sendMany(`http://127.0.0.1:${http}`, 5000);
  await accepted(daemon, 5000);
}

/** The program of OpenTelemetry's page through the Collector of docs/clients stores the same tree. */
export async function clientsPage(lab: Lab): Promise<void> {
  const clients = await Clients.start();
  lab.onClose(() => clients.close());
  const http = await lab.port();
  const front = async (base: string, key: string) => {
    const places = { '127.0.0.1:4328': `127.0.0.1:${http}`, 'http://127.0.0.1:4318': base };
    const config = fragment('collector', { ...places, '${env:KEY}': key }, CLIENTS_PAGE);
    await lab.collector('clients', quiet(config));
    return `http://127.0.0.1:${http}`;
  };
  const runtime = await runtimeOf(COLLECTOR_CASE);
  const { wrong } = await clients.run(COLLECTOR_CASE, runtime, front);
  if (wrong.length > 0) throw new Error(wrong.join('\n'));
}

/** With the page's limits, tracectl accepts larger requests, also over gRPC. */
export async function largeRequests(lab: Lab): Promise<void> {
  const grpcOfOurs = await lab.port();
  const daemon = await startDaemon(lab, {
    edit: (config) => {
      const { receivers } = config as { receivers: { native: { endpoint: string } } & Tree };
      const more = fragment('tracectl, behind', {
        '0.0.0.0:4318': receivers.native.endpoint,
        '0.0.0.0:4317': `127.0.0.1:${grpcOfOurs}`,
      });
      Object.assign(receivers, more.receivers);
    },
  });
  const http = await lab.port();
  const exporters = fragment('collector, in front, gRPC: exporters', {
    'tracectl:4317': `127.0.0.1:${grpcOfOurs}`,
    '${env:TRACECTL_KEY}': daemon.key,
  });
  await lab.collector(
    'front',
    quiet({
      ...exporters,
      extensions: { file_storage: { directory: lab.place('front-queue') } },
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${http}` } } } },
      processors: { batch: { send_batch_size: 8192, timeout: '500ms' } },
      service: {
        extensions: ['file_storage'],
        pipelines: {
          traces: { receivers: ['otlp'], processors: ['batch'], exporters: ['otlp_grpc'] },
        },
      },
    }),
  );
  await sendMany(`http://127.0.0.1:${http}`, 8192);
  await accepted(daemon, 8192);
}

/** The hop of the page between SDKs, over HTTP and gRPC, and a Collector. */
export async function tracectlInFront(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const [http, grpc] = [await lab.port(), await lab.port()];
  await lab.tracectl(
    'tracectl',
    quiet(
      fragment('tracectl, in front', {
        './data': `${lab.place('tracectl')}/queue`,
        '0.0.0.0:4318': `127.0.0.1:${http}`,
        '0.0.0.0:4317': `127.0.0.1:${grpc}`,
        'http://collector:4318': behind.http,
      }),
    ),
  );
  const ours: OtlpEndpoints = { http: `http://127.0.0.1:${http}`, grpc: `127.0.0.1:${grpc}` };
  const request = everyField();
  await post(ours.http, gzipSync(encodeRequest(request)), PROTOBUF);
  const expected = canonicalSpans(request);
  const found = await behind.arrived(expected.length);
  assertSameSpans(found, expected);
  await exportSpans('http/protobuf', [ours]);
  await exportSpans('grpc', [ours]);
  const all = expected.length + 2 * SDK_SPANS;
  if ((await behind.arrived(all)).length !== all) throw new Error('spans of SDKs are missing');
}

/** tracectl to a Collector that asks for a client certificate. */
export async function tlsToACollector(lab: Lab): Promise<void> {
  const tlsPort = await lab.port();
  const file = await fileCollector(lab, 'file');
  const receivers = fragment('collector, behind, TLS: receivers', {
    '0.0.0.0:4318': `127.0.0.1:${tlsPort}`,
    '/etc/otelcol/server.pem': `${CERTIFICATES}server.pem`,
    '/etc/otelcol/server-key.pem': `${CERTIFICATES}server.key`,
    '/etc/otelcol/ca.pem': `${CERTIFICATES}ca.pem`,
  });
  await lab.collector(
    'behind',
    quiet({
      ...receivers,
      exporters: { otlp_http: { endpoint: file.http } },
      service: { pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } } },
    }),
  );
  const { exporters } = fragment('tracectl, exporter with TLS', {
    'https://collector:4318': `https://127.0.0.1:${tlsPort}`,
    '/etc/tracectl/ca.pem': `${CERTIFICATES}ca.pem`,
    '/etc/tracectl/client.pem': `${CERTIFICATES}client.pem`,
    '/etc/tracectl/client-key.pem': `${CERTIFICATES}client.key`,
  }) as { exporters: { otlphttp: { endpoint: string; tls: object } } };
  const { endpoint, ...more } = exporters.otlphttp;
  const ours = await hop(lab, endpoint, more);
  const request = everyField();
  await post(ours.http, gzipSync(encodeRequest(request)), PROTOBUF);
  const expected = canonicalSpans(request);
  assertSameSpans(await arrived(file.spans, expected.length), expected);
  const bare = await hop(lab, `https://127.0.0.1:${tlsPort}`, {}, 'stranger');
  await post(bare.http, gzipSync(encodeRequest(everyField())), PROTOBUF);
  if ((await file.arrived(expected.length)).length !== expected.length) {
    throw new Error('the Collector accepted a client without a certificate');
  }
}

/** A Collector with a client certificate to tracectl, over HTTP and gRPC: each span arrives over both. */
export async function tlsFromACollector(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const [http, grpc, front] = [await lab.port(), await lab.port(), await lab.port()];
  const { receivers } = fragment('tracectl, behind, TLS: receivers', {
    '0.0.0.0:4318': `127.0.0.1:${http}`,
    '0.0.0.0:4317': `127.0.0.1:${grpc}`,
    '/etc/tracectl/server.pem': `${CERTIFICATES}server.pem`,
    '/etc/tracectl/server-key.pem': `${CERTIFICATES}server.key`,
    '/etc/tracectl/ca.pem': `${CERTIFICATES}ca.pem`,
  }) as { receivers: { otlp: Tree } };
  const queue = `${lab.place('tracectl')}/queue`;
  await lab.tracectl(
    'tracectl',
    quiet({
      extensions: { file_storage: { directory: queue } },
      receivers: { otlp: { ...receivers.otlp, project: 'proj_hop' } },
      exporters: {
        otlphttp: { endpoint: behind.http, sending_queue: { storage: 'file_storage' } },
      },
      service: {
        extensions: ['file_storage'],
        pipelines: { traces: { receivers: ['otlp'], exporters: ['otlphttp'] } },
      },
    }),
  );
  const exporters = fragment('collector, in front, TLS: exporters', {
    'https://tracectl:4318': `https://127.0.0.1:${http}`,
    'tracectl:4317': `127.0.0.1:${grpc}`,
    '/etc/otelcol/ca.pem': `${CERTIFICATES}ca.pem`,
    '/etc/otelcol/client.pem': `${CERTIFICATES}client.pem`,
    '/etc/otelcol/client-key.pem': `${CERTIFICATES}client.key`,
  });
  await lab.collector(
    'front',
    quiet({
      ...exporters,
      receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${front}` } } } },
      service: {
        pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http', 'otlp_grpc'] } },
      },
    }),
  );
  const request = everyField();
  await post(`http://127.0.0.1:${front}`, gzipSync(encodeRequest(request)), PROTOBUF);
  const expected = canonicalSpans(request);
  const found = (await behind.arrived(2 * expected.length)).toSorted((a, b) =>
    a.id < b.id ? -1 : 1,
  );
  for (const half of [0, 1])
    assertSameSpans(
      found.filter((_, i) => i % 2 === half),
      expected,
    );
}

async function startDaemon(
  lab: Lab,
  options: Parameters<typeof prepareDaemon>[0],
): Promise<Daemon> {
  const daemon = await prepareDaemon(options);
  lab.onClose(() => daemon.remove());
  await daemon.start();
  return daemon;
}

async function sendMany(base: string, spans: number): Promise<void> {
  await post(base, gzipSync(encodeRequest(smallRequest(spans).request)), PROTOBUF);
}

async function accepted(daemon: Daemon, spans: number): Promise<void> {
  await eventually(
    () => daemon.metrics(),
    (samples) => total(samples, 'tracectl_receiver_accepted_items_total') === spans,
    `${spans} accepted spans`,
    20_000,
  );
}

/** Turns off the metrics server, whose default port may be in use. */
function quiet(config: Tree): PeerConfig {
  const service = config.service as Tree;
  return { ...config, service: { ...service, telemetry: { metrics: { level: 'none' } } } };
}
