import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { send } from '../e2e/client.ts';
import { encodeRequest } from '../helper/otlp-proto.ts';
import { startOtlpServer } from '../helper/otlp-server.ts';
import type { CanonicalSpan } from './canonical.ts';
import { telemetrygen } from './chains.ts';
import { type Fault, FaultyHop } from './faulty-hop.ts';
import { fileCollector, hop, type Lab, otlpReceiver, sleep } from './lab.ts';
import { smallRequest } from './sample.ts';
import { run } from './toolchain.ts';

const SPANS = 5;
const CLIENTS = 4;
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const CLI_MS = 20_000;
/** The shortest duration of a fault. */
const FAULT_MS = 700;
const FAULT_LIMIT_MS = 30_000;

/** Clients that send small requests until `stop`, and record the acknowledged ones. */
class LoadClients {
  readonly acknowledged = new Set<string>();
  #isOver = false;
  readonly #clients: Promise<void>[];

  constructor(base: string) {
    this.#clients = Array.from({ length: CLIENTS }, () => this.#send(base));
  }

  async stop(): Promise<ReadonlySet<string>> {
    this.#isOver = true;
    await Promise.all(this.#clients);
    return this.acknowledged;
  }

  async #send(base: string): Promise<void> {
    while (!this.#isOver) {
      const { traceId, request } = smallRequest(SPANS);
      const headers = { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' };
      const body = gzipSync(encodeRequest(request));
      const call = { method: 'POST', path: '/v1/traces', headers, body, timeoutMs: 5000 };
      const status = await send(base, call).then(
        (answer) => answer.status,
        () => 0,
      );
      if (status === 200) this.acknowledged.add(traceId);
      // A client waits longer after a failure.
      await sleep(status === 200 ? 3 : 50);
    }
  }
}

const PARTIAL: Fault = {
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ partialSuccess: { rejectedSpans: '1', errorMessage: 'one is too old' } }),
};

/** Faults during which the destination accepts no span: every acknowledged span arrives exactly once. */
const CLEAN_FAULTS: readonly (readonly [name: string, fault: Fault])[] = [
  ['is down', 'down'],
  ['answers 429', { status: 429 }],
  ['answers 429 with Retry-After', { status: 429, headers: { 'retry-after': '1' } }],
  ['answers 503', { status: 503 }],
  ['answers 503 with Retry-After', { status: 503, headers: { 'retry-after': '1' } }],
  ['answers 502', { status: 502 }],
  ['resets connections', 'reset'],
  ['hangs', 'hang'],
  ['answers 401', { status: 401 }],
];

/** The next collector has every fault in turn, under load. */
export async function faultsOfTheNext(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const faulty = await faultyHop(lab, behind.http);
  const ours = await hop(lab, faulty.url);
  const sender = new LoadClients(ours.http);
  for (const [name, fault] of CLEAN_FAULTS) {
    const before = sender.acknowledged.size;
    await faulty.set(fault);
    await until(() => fault === 'down' || faulty.met > 0, `a request while it ${name}`);
    await sleep(FAULT_MS);
    if (sender.acknowledged.size === before)
      throw new Error(`no request was acknowledged while it ${name}`);
    await faulty.set('none');
    const arrived = behind.spans().length;
    await until(() => behind.spans().length > arrived, `spans after it ${name}`);
  }
  const acknowledged = await sender.stop();
  const spans = await behind.arrived(acknowledged.size * SPANS);
  assertDelivered(acknowledged, spans, 'once');

  const again = new LoadClients(ours.http);
  await faulty.set('lost answer');
  await until(() => faulty.met > 3, 'requests whose answer is lost');
  await faulty.set('none');
  const more = await again.stop();
  const all = new Set([...acknowledged, ...more]);
  await until(() => isDelivered(all, behind.spans()), 'the acknowledged spans');
}

/** A partial success is not sent again; the dead letter keeps its batch, which can be replayed. */
export async function partialSuccessToDeadLetter(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const faulty = await faultyHop(lab, behind.http);
  const ours = await hop(lab, faulty.url);
  await faulty.set(PARTIAL);
  const sender = new LoadClients(ours.http);
  await until(() => sender.acknowledged.size >= 3, 'acknowledgements');
  const acknowledged = await sender.stop();
  const deadLetters = async () => {
    const text = await cli('dead-letter', 'list', '--json', '--config', ours.peer.configPath);
    return (JSON.parse(text) as { dead_letters: { reason: unknown }[] }).dead_letters;
  };
  await until(async () => (await deadLetters()).length === acknowledged.size, 'the dead letters');
  if (faulty.met !== acknowledged.size) throw new Error(`${faulty.met} requests were sent`);
  if (!JSON.stringify(await deadLetters()).includes('one is too old')) {
    throw new Error('the dead letter has no message of the destination');
  }
  await faulty.set('none');
  await cli('dead-letter', 'replay', '--all', '--config', ours.peer.configPath);
  assertDelivered(acknowledged, await behind.arrived(acknowledged.size * SPANS), 'once');
}

/** tracectl is killed under load several times. */
export async function killingOurs(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const ours = await hop(lab, behind.http);
  const sender = new LoadClients(ours.http);
  for (let kill = 0; kill < 4; kill++) {
    const before = sender.acknowledged.size;
    await until(() => sender.acknowledged.size > before + 20, 'acknowledgements');
    await ours.peer.end('SIGKILL');
    await ours.peer.start();
  }
  const acknowledged = await sender.stop();
  await until(() => isDelivered(acknowledged, behind.spans()), 'the acknowledged spans');
  assertDelivered(acknowledged, behind.spans(), 'at least once');
}

/**
 * The next collector is killed under load. It forwards before it answers, so that tracectl still has every span
 * that it did not forward.
 */
export async function killingTheNext(lab: Lab): Promise<void> {
  const server = await startOtlpServer({ teardown: (close) => lab.onClose(close) });
  const [http, grpc] = [await lab.port(), await lab.port()];
  const next = await lab.collector('next', {
    receivers: otlpReceiver(http, grpc),
    exporters: { otlp_http: { endpoint: server.url, sending_queue: { enabled: false } } },
    service: {
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  const ours = await hop(lab, `http://127.0.0.1:${http}`);
  const sender = new LoadClients(ours.http);
  for (let kill = 0; kill < 3; kill++) {
    const before = sender.acknowledged.size;
    await until(() => sender.acknowledged.size > before + 20, 'acknowledgements');
    await next.end('SIGKILL');
    await sleep(300);
    await next.start();
  }
  const acknowledged = await sender.stop();
  const spans = (): CanonicalSpan[] =>
    server.requests.flatMap((each) =>
      each.spans.map(({ traceId, spanId }) => ({ id: `${traceId}:${spanId}`, content: {} })),
    );
  await until(() => isDelivered(acknowledged, spans()), 'the acknowledged spans');
}

/** A Collector with a persistent queue before tracectl: both are killed, and every acknowledged span arrives. */
export async function killingTheFirst(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const ours = await hop(lab, behind.http);
  const [http, grpc] = [await lab.port(), await lab.port()];
  const directory = lab.place('front-queue');
  const front = await lab.collector('front', {
    extensions: { file_storage: { directory, fsync: true } },
    receivers: otlpReceiver(http, grpc),
    exporters: {
      otlp_http: {
        endpoint: ours.http,
        retry_on_failure: { initial_interval: '100ms', max_interval: '500ms', max_elapsed_time: 0 },
        sending_queue: { storage: 'file_storage', queue_size: 100_000 },
      },
    },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  const sender = new LoadClients(`http://127.0.0.1:${http}`);
  for (const peer of [ours.peer, front, ours.peer]) {
    const before = sender.acknowledged.size;
    await until(() => sender.acknowledged.size > before + 20, 'acknowledgements');
    await peer.end('SIGKILL');
    await peer.start();
  }
  const acknowledged = await sender.stop();
  await until(() => isDelivered(acknowledged, behind.spans()), 'the acknowledged spans');
}

/** As the page says, a Collector retries after 429 and 503, and drops the spans for other statuses. */
export async function answersToACollector(lab: Lab): Promise<void> {
  const behind = await fileCollector(lab, 'behind');
  const faulty = await faultyHop(lab, behind.http);
  const [http, grpc] = [await lab.port(), await lab.port()];
  const front = await lab.collector('front', {
    receivers: otlpReceiver(http, grpc),
    exporters: {
      otlp_http: {
        endpoint: faulty.url,
        retry_on_failure: { initial_interval: '100ms', max_interval: '200ms' },
      },
    },
    service: {
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
      telemetry: { metrics: { level: 'none' } },
    },
  });
  let arrived = 0;
  for (const status of [402, 413, 429, 503]) {
    const isKept = status === 429 || status === 503;
    await faulty.set({ status });
    await telemetrygen(lab, ['--otlp-http'], `127.0.0.1:${http}`, 2);
    await until(() => faulty.met >= (isKept ? 2 : 1), `a request that is answered ${status}`);
    await sleep(500);
    if (!isKept && !front.output().includes('Dropping data')) {
      throw new Error(`the Collector does not report dropped spans for ${status}`);
    }
    await faulty.set('none');
    if (isKept) {
      arrived += 4;
      await until(
        () => behind.spans().length === arrived,
        `the spans of the requests that were answered ${status}`,
      );
    } else {
      await sleep(500);
      if (behind.spans().length !== arrived) throw new Error(`${status} was retried`);
    }
  }
}

async function faultyHop(lab: Lab, target: string): Promise<FaultyHop> {
  const faulty = new FaultyHop(target);
  await faulty.listen();
  lab.onClose(() => faulty.close());
  return faulty;
}

function cli(...args: string[]): Promise<string> {
  return run(process.execPath, [MAIN, ...args], { ms: CLI_MS });
}

function assertDelivered(
  acknowledged: ReadonlySet<string>,
  spans: readonly CanonicalSpan[],
  how: 'once' | 'at least once',
): void {
  const ids = spans.map(({ id }) => id);
  const unique = new Set(ids);
  if (how === 'once' && unique.size !== ids.length) {
    throw new Error(`${ids.length - unique.size} spans arrived more than once`);
  }
  const counts = countsOf(unique);
  const missing = [...acknowledged].filter((traceId) => counts.get(traceId) !== SPANS);
  if (missing.length > 0) {
    throw new Error(
      `${missing.length} of ${acknowledged.size} acknowledged requests did not arrive`,
    );
  }
}

function isDelivered(acknowledged: ReadonlySet<string>, spans: readonly CanonicalSpan[]): boolean {
  const counts = countsOf(new Set(spans.map(({ id }) => id)));
  return [...acknowledged].every((traceId) => counts.get(traceId) === SPANS);
}

/** Distinct spans by trace. */
function countsOf(ids: ReadonlySet<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const id of ids) {
    const traceId = id.slice(0, 32);
    counts.set(traceId, (counts.get(traceId) ?? 0) + 1);
  }
  return counts;
}

async function until(look: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = Date.now() + FAULT_LIMIT_MS;
  while (!(await look())) {
    if (Date.now() > end) throw new Error(`waited ${FAULT_LIMIT_MS / 1000} s for ${what}`);
    await sleep(50);
  }
}
