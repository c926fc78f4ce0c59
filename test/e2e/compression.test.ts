import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { startOtlpServer } from '../helper/otlp-server.ts';
import { eventually, json, list, record } from './client.ts';
import { type Daemon, startDaemon, type Tree } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** A body that the processor `compression` has compressed is delivered, read, erased and forwarded like the one that was sent. */
t.setTimeout(120_000);

const ZSTD = 2;
const TEXT_BYTES = 1_000;

/** Spans of two traces in OTLP's JSON form, each with a text of its own. */
function twoTraces(each: number) {
  const spans = Array.from({ length: each * 2 }, (_, i) => {
    const trace = i % 2 === 0 ? 'a' : 'b';
    return {
      traceId: trace.repeat(32),
      spanId: (i + 1).toString(16).padStart(16, '0'),
      name: `span ${i}`,
      startTimeUnixNano: `${Date.now() * 1e6}`,
      endTimeUnixNano: `${Date.now() * 1e6 + 1e6}`,
      attributes: [
        { key: 'input.value', value: { stringValue: textOf(trace, i) } },
        { key: 'session.id', value: { stringValue: `session-${trace}` } },
      ],
    };
  });
  return JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] });
}

function textOf(trace: string, i: number): string {
  return `secret of ${trace} ${i} `.repeat(TEXT_BYTES).slice(0, TEXT_BYTES);
}

function send(daemon: Daemon, body: string) {
  const headers = { 'content-type': 'application/json' };
  return daemon.call({ method: 'POST', path: '/v1/traces', headers, body });
}

/** The texts of a trace as the read API shows them, once it has so many observations. */
async function textsOf(daemon: Daemon, trace: string, count: number): Promise<unknown[]> {
  const path = `/api/v1/traces/${trace.repeat(32)}?payloads=true&limit=1000`;
  const observations = await eventually(
    async () => {
      const answer = await daemon.call({ path });
      return answer.status === 200 ? list(record(json(answer)).observations) : [];
    },
    (found) => found.length === count,
    `the observations of ${trace}`,
  );
  return observations.map((each) => record(each).inputs).sort();
}

type StoredBody = { readonly encoding: number; readonly body: Uint8Array };

function storedBodies(daemon: Daemon): StoredBody[] {
  const db = new DatabaseSync(join(daemon.directory, 'data/store.db'), { readOnly: true });
  try {
    return db.prepare('SELECT encoding, body FROM raw_batches').all() as StoredBody[];
  } finally {
    db.close();
  }
}

/** Adds the processor in front of `quotas`, and an exporter to the server, which refuses the first delivery. */
async function started(t: Test) {
  const server = await startOtlpServer(t);
  server.next({ status: 503 });
  const daemon = await startDaemon(t, {
    edit(config) {
      treeAt(config, 'processors').compression = {};
      const { processors } = treeAt(config, 'service', 'pipelines', 'traces/accept');
      (processors as string[]).splice(-1, 0, 'compression');
      treeAt(config, 'exporters').otlphttp = { endpoint: server.url, compression: 'gzip' };
      treeAt(config, 'service', 'pipelines')['traces/forward'] = {
        ...{ receivers: ['disk_queue'], exporters: ['otlphttp'] },
      } satisfies Tree;
    },
  });
  const received = async (count: number) =>
    (await server.received(count)).map(({ body, headers }) => {
      t.equal(headers['content-encoding'], 'gzip');
      return gunzipSync(body).toString();
    });
  return { daemon, received };
}

t.test('a compressed body is read, forwarded, kept over a kill, and erased in part', async (t) => {
  const each = 20;
  const { daemon, received } = await started(t);
  const sent = twoTraces(each);
  t.equal((await send(daemon, sent)).status, 200);
  // While the daemon waits to deliver again: a kill between a delivery and its acknowledgement in the queue would repeat the delivery.
  await received(1);
  await daemon.end('SIGKILL');
  await daemon.start();

  const expected = (trace: string, first: number) =>
    Array.from({ length: each }, (_, i) => textOf(trace, i * 2 + first)).sort();
  t.same(await textsOf(daemon, 'a', each), expected('a', 0));
  t.same(await textsOf(daemon, 'b', each), expected('b', 1));
  t.same(
    (await received(2)).map((body) => JSON.parse(body)),
    [JSON.parse(sent), JSON.parse(sent)],
  );

  const [whole] = storedBodies(daemon);
  t.equal(whole?.encoding, ZSTD);
  t.ok((whole?.body.byteLength ?? sent.length) < sent.length / 10);
  t.equal(zstdDecompressSync(whole?.body ?? Buffer.alloc(0)).toString(), sent);

  const { code, stderr } = await daemon.cli('erase', 'session:session-a', '--yes', '--json');
  t.equal(code, 0, stderr);
  const [rest] = storedBodies(daemon);
  t.equal(rest?.encoding, ZSTD);
  const left = zstdDecompressSync(rest?.body ?? Buffer.alloc(0)).toString();
  t.notMatch(left, /secret of a/);
  t.match(left, /secret of b/);
  t.same(await textsOf(daemon, 'b', each), expected('b', 1));
  t.equal((await daemon.call({ path: `/api/v1/traces/${'a'.repeat(32)}` })).status, 404);
});

t.test('a small body is stored as it was sent', async (t) => {
  const { daemon } = await started(t);
  const sent = twoTraces(2);
  t.equal((await send(daemon, sent)).status, 200);
  await textsOf(daemon, 'a', 2);
  const [stored] = storedBodies(daemon);
  t.equal(stored?.encoding, 0);
  t.equal(Buffer.from(stored?.body ?? []).toString(), sent);
});
