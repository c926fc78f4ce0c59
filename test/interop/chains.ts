import { globSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { gzipSync } from 'node:zlib';
import { observe, payload } from '../../src/model/formats.ts';
import { OBSERVATION_ORIGIN, spanOfObservation } from '../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans } from '../../src/model/otlp/own-span.ts';
import { eventually, json, list, record, send } from '../e2e/client.ts';
import { type Daemon, prepareDaemon } from '../e2e/daemon.ts';
import { nativeBatch, nativeEvent } from '../helper/batches.ts';
import { encodeRequest } from '../helper/otlp-proto.ts';
import { startOtlpServer } from '../helper/otlp-server.ts';
import { assertSameSpans, type CanonicalSpan, canonicalSpans } from './canonical.ts';
import { fileCollector, hop, type Lab, otlpReceiver } from './lab.ts';
import { everyField, withUnknownFields } from './sample.ts';
import { exportSpans, type OtlpEndpoints, SDK_SPANS, type SdkTransport } from './sdk.ts';
import { run } from './toolchain.ts';

const SEND_PY = fileURLToPath(new URL('./send.py', import.meta.url));
const PYTHON_MS = 30_000;
const LOAD_MS = 60_000;

/** In every encoding, the next Collector reads every field as it was sent. */
export async function everyFieldOverHttp(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const ours = await hop(lab, behind.http);
  const expected: CanonicalSpan[] = [];
  for (const type of ['application/x-protobuf', 'application/json']) {
    for (const encoding of ['identity', 'gzip']) {
      const request = everyField();
      const plain =
        type === 'application/json' ? Buffer.from(JSON.stringify(request)) : encodeRequest(request);
      const body = encoding === 'gzip' ? gzipSync(plain) : plain;
      await post(ours.http, body, { 'content-type': type, 'content-encoding': encoding });
      expected.push(...canonicalSpans(request));
    }
  }
  assertSameSpans(await behind.arrived(expected.length), expected);
}

/** A Collector reads the spans that tracectl makes of native events as tracectl reads them itself. */
export async function nativeEvents(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const port = await lab.port();
  await lab.tracectl('tracectl', {
    extensions: { file_storage: { directory: join(lab.place('tracectl'), 'queue') } },
    receivers: { native: { endpoint: `127.0.0.1:${port}`, project: 'proj_hop' } },
    exporters: { otlphttp: { endpoint: behind.http, sending_queue: { storage: 'file_storage' } } },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['native'], exporters: ['otlphttp'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  const batch = nativeBatch([
    nativeEvent({ id: 'call', model: 'model-1', usage: { input_tokens: 2 ** 53 - 1 } }),
    nativeEvent({ id: 'failed', parent_id: 'call', operation: 'error', error: 'größer ☃' }),
  ]);
  const answer = await send(`http://127.0.0.1:${port}`, {
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { 'content-type': 'application/json' },
    body: batch.body,
  });
  if (answer.status !== 202) throw new Error(`answered ${answer.status}: ${answer.body}`);
  const spans = observe(batch).map((observation, position) =>
    spanOfObservation(observation, payload(batch, position), batch.receivedAt),
  );
  const json = await encodeOwnSpans(OBSERVATION_ORIGIN, spans, 'json');
  assertSameSpans(await behind.arrived(2), canonicalSpans(JSON.parse(json.toString())));
}

/** Unknown fields are forwarded as the bytes that arrived, and a Collector accepts them. */
export async function unknownFields(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const server = await startOtlpServer({ teardown: (close) => lab.onClose(close) });
  const request = everyField();
  const known = canonicalSpans(request);
  const bytes = withUnknownFields(request);
  const headers = { 'content-type': 'application/x-protobuf' };
  const toServer = await hop(lab, server.url, { compression: 'none' }, 'to-server');
  await post(toServer.http, bytes, headers);
  const [received] = await server.received(1);
  if (received?.body.equals(bytes) !== true) throw new Error('the forwarded bytes differ');
  await toServer.peer.end('SIGTERM');

  const toCollector = await hop(lab, behind.http);
  await post(toCollector.http, bytes, headers);
  const arrived = await behind.arrived(known.length + 1);
  if (arrived.length !== known.length + 1) throw new Error(`${arrived.length} spans arrived`);
  const ids = new Set(known.map(({ id }) => id));
  assertSameSpans(
    arrived.filter(({ id }) => ids.has(id)),
    known,
  );
}

/** The SDK sends the same spans to tracectl and to a Collector, and both chains must end with equal spans. */
export async function sdkForJavaScript(lab: Lab, transport: SdkTransport): Promise<void> {
  await throughBoth(lab, (destinations) => exportSpans(transport, destinations));
}

export async function sdkForPython(
  lab: Lab,
  transport: 'http' | 'grpc',
  python: string,
): Promise<void> {
  await throughBoth(lab, async (destinations) => {
    const addresses = destinations.map(({ http, grpc }) => (transport === 'http' ? http : grpc));
    await run(python, [SEND_PY, transport, ...addresses], { ms: PYTHON_MS });
  });
}

async function throughBoth(
  lab: Lab,
  exportTo: (destinations: readonly OtlpEndpoints[]) => Promise<void>,
): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const reference = await fileCollector(lab, 'reference');
  const ours = await hop(lab, behind.http);
  await exportTo([ours, reference]);
  const expected = await reference.arrived(SDK_SPANS);
  if (expected.length !== SDK_SPANS) throw new Error(`the SDK sent ${expected.length} spans`);
  assertSameSpans(await behind.arrived(SDK_SPANS), expected);
}

/** Every span of the Collector's own load generator arrives once. */
export async function telemetrygenLoad(lab: Lab, transport: 'http' | 'grpc'): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const ours = await hop(lab, behind.http);
  await telemetrygen(lab, transport === 'http' ? ['--otlp-http'] : [], ours[transport], 2000);
  const arrived = await behind.arrived(4000);
  const ids = new Set(arrived.map(({ id }) => id));
  if (arrived.length !== 4000 || ids.size !== 4000) {
    throw new Error(`${arrived.length} spans arrived, ${ids.size} different ones, of 4000`);
  }
}

/** Sends traces of two spans each. */
export async function telemetrygen(
  lab: Lab,
  flags: readonly string[],
  address: string,
  traces: number,
): Promise<void> {
  const endpoint = address.replace(/^http:\/\//, '');
  // With batches it drops spans under load; without, it sends every span.
  const load = ['--traces', String(traces / 2), '--workers', '2', '--rate', '0', '--batch=false'];
  const args = ['traces', '--otlp-insecure', '--otlp-endpoint', endpoint, ...load, ...flags];
  await run(lab.toolchain.telemetrygen, args, { ms: LOAD_MS });
}

/** Collector ─▶ tracectl ─▶ Collector ─▶ file; the reference is a file of the first Collector. */
export async function betweenCollectors(lab: Lab, transport: 'http' | 'grpc'): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const ours = await hop(lab, behind.http);
  const front = await frontCollector(lab, (reference) => ({
    exporters: {
      ours:
        transport === 'http'
          ? { 'otlp_http/ours': { endpoint: ours.http } }
          : { 'otlp_grpc/ours': { endpoint: ours.grpc, tls: { insecure: true } } },
      reference,
    },
    processors: { batch: { send_batch_size: 8192, timeout: '200ms' } },
  }));
  const request = everyField();
  await post(front.http, encodeRequest(request), { 'content-type': 'application/x-protobuf' });
  await telemetrygen(lab, ['--otlp-http'], front.http, 5000);
  const count = canonicalSpans(request).length + 10_000;
  const expected = await front.reference(count);
  if (expected.length !== count)
    throw new Error(`the first Collector has ${expected.length} spans`);
  assertSameSpans(await behind.arrived(count), expected);
  const ids = new Set(canonicalSpans(request).map(({ id }) => id));
  const arrived = behind.spans().filter(({ id }) => ids.has(id));
  assertSameSpans(arrived, canonicalSpans(request));
}

/** Collector ─▶ tracectl ─▶ store, read back through the API. */
export async function intoTheStore(lab: Lab, transport: 'http' | 'grpc'): Promise<void> {
  const grpcPort = await lab.port();
  const daemon = await prepareDaemon({
    config: { receivers: { otlp: { protocols: { grpc: { endpoint: `127.0.0.1:${grpcPort}` } } } } },
  });
  lab.onClose(() => daemon.remove());
  await daemon.start();
  const headers = { authorization: `Bearer ${daemon.key}` };
  const front = await frontCollector(lab, (reference) => ({
    exporters: {
      ours:
        transport === 'http'
          ? { 'otlp_http/ours': { endpoint: daemon.base, headers } }
          : {
              'otlp_grpc/ours': {
                endpoint: `127.0.0.1:${grpcPort}`,
                headers,
                tls: { insecure: true },
              },
            },
      reference,
    },
    processors: { batch: { send_batch_max_size: 1000, send_batch_size: 1000, timeout: '200ms' } },
  }));
  const request = everyField();
  await post(front.http, encodeRequest(request), { 'content-type': 'application/x-protobuf' });
  const expected = await front.reference(canonicalSpans(request).length);
  const traceIds = [...new Set(expected.map(({ id }) => id.split(':')[0] ?? ''))];
  for (const traceId of traceIds) {
    const wanted = expected.filter(({ id }) => id.startsWith(`${traceId}:`)).map(({ id }) => id);
    const listed = await listedObservations(daemon, traceId);
    if (!isDeepStrictEqual(listed.toSorted(), wanted.toSorted())) {
      throw new Error(`the trace ${traceId} lists ${listed.join(', ')}`);
    }
  }
  assertSameSpans(await rawSpans(daemon), expected);
}

async function listedObservations(daemon: Daemon, traceId: string): Promise<string[]> {
  const path = `/api/v1/traces/${traceId}?limit=1000`;
  const answer = await eventually(
    () => daemon.call({ path }),
    (answer) => answer.status === 200,
    `the trace ${traceId}`,
    15_000,
  );
  return list(record(json(answer)).observations).map((one) => String(record(one).id));
}

/** All accepted spans from the API; the ids of the batches come from the database. */
async function rawSpans(daemon: Daemon): Promise<CanonicalSpan[]> {
  const [file = ''] = globSync(join(daemon.directory, 'data', '*.db'));
  const database = new DatabaseSync(file, { readOnly: true });
  const batches = database.prepare('SELECT id FROM raw_batches').all();
  database.close();
  const spans: CanonicalSpan[] = [];
  for (const { id } of batches) {
    for (let i = 0; ; i++) {
      const raw = await daemon.call({ path: `/api/v1/raw-events/raw_${String(id)}_${i}` });
      if (raw.status === 404) break;
      spans.push(...canonicalSpans(record(json(raw)).event));
    }
  }
  return spans;
}

type Front = { readonly http: string; reference(count: number): Promise<CanonicalSpan[]> };

/** A Collector that sends its spans to tracectl and to a file of its own. */
async function frontCollector(
  lab: Lab,
  make: (reference: object) => {
    exporters: { ours: object; reference: object };
    processors: Record<string, object>;
  },
): Promise<Front> {
  const file = await fileCollector(lab, 'reference');
  const { exporters, processors } = make({ 'otlp_http/reference': { endpoint: file.http } });
  const [http, grpc] = [await lab.port(), await lab.port()];
  const all = { ...exporters.ours, ...exporters.reference };
  await lab.collector('front', {
    receivers: otlpReceiver(http, grpc),
    processors,
    exporters: all,
    service: {
      pipelines: {
        traces: {
          receivers: ['otlp'],
          processors: Object.keys(processors),
          exporters: Object.keys(all),
        },
      },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  return { http: `http://127.0.0.1:${http}`, reference: (count) => file.arrived(count) };
}

export async function post(
  base: string,
  body: Buffer,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const { 'content-encoding': encoding, ...rest } = headers;
  const all = encoding === undefined || encoding === 'identity' ? rest : headers;
  const answer = await send(base, { method: 'POST', path: '/v1/traces', headers: all, body });
  if (answer.status !== 200) {
    throw new Error(`answered ${answer.status}: ${answer.body.toString('utf8').slice(0, 500)}`);
  }
}
