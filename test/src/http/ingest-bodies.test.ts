import { randomBytes } from 'node:crypto';
import { deflateSync, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { COPIES, FIRST_BYTES } from '../../../src/http/body.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { indexOf, knownIndexOf } from '../../../src/model/formats.ts';
import { lengthDelimited } from '../../../src/model/otlp/wire.ts';
import { nativeEvent } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { acceptInto } from '../../helper/sink.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { dial } from '../../helper/wire.ts';
import {
  chunked,
  events,
  lastOf,
  MAX,
  MIB,
  NOTHING_HELD,
  PATH,
  padded,
  post,
  served,
} from './ingesting.ts';

t.test('keeps compressed bodies as received', async (t) => {
  const { url, sink } = await served(t);
  for (const [encoding, body] of [
    ['gzip', gzipSync(events(3))],
    ['zstd', zstdCompressSync(events(3))],
  ] as const) {
    const { status } = await post(url, body, { 'content-encoding': encoding });
    t.equal(status, 202, encoding);
    const batch = lastOf(sink);
    t.equal(batch.encoding, encoding);
    t.ok(batch.body.equals(body));
  }
});

t.test('keeps a body in deflate as gzip, small or large', async (t) => {
  const { url, sink } = await served(t);
  for (const padding of [0, 600_000]) {
    const sent = Buffer.concat([events(3), Buffer.alloc(padding, ' ')]);
    const { status } = await post(url, deflateSync(sent), { 'content-encoding': 'deflate' });
    t.equal(status, 202);
    const batch = lastOf(sink);
    t.equal(batch.encoding, 'gzip');
    t.ok(gunzipSync(batch.body).equals(sent));
    t.equal(batch.body.buffer.byteLength, batch.body.length, 'the body owns its memory');
  }
  const damaged = deflateSync(events(1)).subarray(0, -1);
  t.equal((await post(url, damaged, { 'content-encoding': 'deflate' })).status, 400);
  const bomb = deflateSync(Buffer.alloc(26_214_401));
  t.equal((await post(url, bomb, { 'content-encoding': 'deflate' })).status, 413);
});

t.test(
  'accepts 25 MiB and answers 413 to one byte more: declared, chunked and inflated',
  async (t) => {
    const { url, sink, held } = await served(t);
    t.equal((await post(url, padded(MAX))).status, 202, 'declared');
    t.equal((await post(url, chunked(padded(MAX)))).status, 202, 'chunked');
    const gzip = { 'content-encoding': 'gzip' };
    t.equal((await post(url, gzipSync(padded(MAX)), gzip)).status, 202, 'inflated');
    t.equal(sink.batches.length, 3);
    for (const batch of sink.batches) t.equal(indexOf(rawOf(batch)).bytes.length, MAX);
    for (const [what, body, headers] of [
      ['declared', padded(MAX + 1), {}],
      ['chunked', chunked(padded(MAX + 1)), {}],
      ['inflated', gzipSync(padded(MAX + 1)), gzip],
      ['a bomb', gzipSync(Buffer.alloc(200 * MIB)), gzip],
      ['a bomb of two members', Buffer.concat([gzipSync(padded(MAX)), gzipSync(' ')]), gzip],
    ] as const) {
      const got = await post(url, body, headers);
      t.equal(got.status, 413, what);
      t.equal(got.json.code, 'body_too_large');
    }
    t.equal(sink.batches.length, 3);
    t.strictSame(held(), NOTHING_HELD);
  },
);

t.test('frees the inflated form once the request is answered', async (t) => {
  const { url, sink } = await served(t);
  const scans: Buffer[] = [];
  sink.behave((batch) => {
    const index = knownIndexOf(rawOf(batch));
    if (index !== undefined) scans.push(index.bytes);
  });
  const body = gzipSync(events(3));
  t.equal((await post(url, body, { 'content-encoding': 'gzip' })).status, 202);
  t.strictSame(
    scans.map(({ length }) => length),
    [0],
  );
  const batch = lastOf(sink);
  t.ok(batch.body.equals(body));
  t.equal(indexOf(batch).count, 3, 'a later reader inflates it again');
});

t.test('reserves the merged form of a compressed body, and its copy in the queue', async (t) => {
  const { url, sink, held } = await served(t, {
    protocol: { checkHead: () => ({ format: 'otlp_proto', encoding: 'gzip' }) },
  });
  const reserved: number[] = [];
  sink.behave(() => void reserved.push(held().bytes));
  const name = lengthDelimited(42, Buffer.alloc(MIB, 'x'));
  const resource = lengthDelimited(10, Buffer.alloc(0));
  const spans = lengthDelimited(18, lengthDelimited(18, name));
  for (const [resources, forms] of [
    [[resource], 1],
    [[resource, resource], 2],
  ] as const) {
    const body = gzipSync(lengthDelimited(10, Buffer.concat([...resources, spans])));
    t.equal((await post(url, body, { 'content-encoding': 'gzip' })).status, 202);
    const copies = lastOf(sink).body.length === body.length ? 0 : 1;
    t.equal(copies, forms - 1, 'the merged form is kept');
    t.ok((reserved.pop() ?? 0) >= forms * MIB, `${forms} MiB are reserved`);
  }
  t.strictSame(held(), NOTHING_HELD);
});

t.test('scans large bodies in a thread', async (t) => {
  const { url, sink } = await served(t);
  const large = JSON.stringify({
    events: [nativeEvent({ inputs: randomBytes(2 * MIB).toString('base64') })],
  });
  t.equal((await post(url, large)).status, 202);
  t.equal((await post(url, `${large}x`)).json.code, 'invalid_json');
  const batch = lastOf(sink);
  t.ok(batch.body.equals(Buffer.from(large)));
  t.ok(knownIndexOf(batch)?.bytes.equals(Buffer.from(large)));
});

t.test(
  'refuses a declared size above the limit after authentication and before the body',
  async (t) => {
    const { url, held } = await served(t);
    const wire = await dial(url);
    const head = `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n`;
    wire.send(`${head}Expect: 100-continue\r\nContent-Length: ${MAX + 1}\r\n\r\n`);
    const got = await wire.answer();
    t.equal(got.status, 413, 'and no 100 Continue');
    t.equal(got.headers.connection, 'close');
    await wire.ended();

    const refusing = await served(t, {
      pipeline: () => ({
        admit() {
          throw new Refusal('unauthorized', 'no');
        },
      }),
    });
    const second = await dial(refusing.url);
    second.send(`${head}Expect: 100-continue\r\nContent-Length: ${MAX + 1}\r\n\r\n`);
    const unauthorized = await second.answer();
    t.equal(unauthorized.status, 401);
    t.equal(unauthorized.headers['www-authenticate'], 'Bearer');
    await second.ended();
    t.strictSame(held(), NOTHING_HELD);
  },
);

t.test('sends 100 Continue after admission', async (t) => {
  const { url } = await served(t);
  const wire = await dial(url);
  const body = events();
  wire.send(
    `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n` +
      `Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  t.equal((await wire.answer()).status, 100);
  wire.send(body);
  t.equal((await wire.answer()).status, 202);
  wire.close();
});

t.test('keeps the connection after a refusal only if the unread body is small', async (t) => {
  const { url } = await served(t, {
    pipeline: () => ({
      admit() {
        throw new Refusal('rate_limited', 'slower', { retryAfterMs: 1500 });
      },
    }),
  });
  const wire = await dial(url);
  const head = `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n`;
  wire.send(`${head}Content-Length: 65536\r\n\r\n${' '.repeat(65_536)}`);
  const first = await wire.answer();
  t.equal(first.status, 429);
  t.equal(first.headers['retry-after'], '2');
  wire.send(`${head}Content-Length: 65537\r\n\r\n${' '.repeat(65_537)}`);
  const second = await wire.answer();
  t.equal(second.status, 429);
  t.equal(second.headers.connection, 'close');
  await wire.ended();
});

t.test('answers 503 when the bytes in flight are used up, and releases everything', async (t) => {
  const release = Promise.withResolvers<void>();
  const clock = fakeClock();
  const { url, held, sink } = await served(t, {
    clock,
    inFlightBytes: 4 * MIB * COPIES,
    // Only the wait for bytes ends a request.
    readTimeout: 1e9,
    bodyRate: { bytesPerSecond: 0, period: 5_000 },
    pipeline: (sink) => ({
      accept: acceptInto(sink, () => release.promise),
    }),
  });
  const first = post(url, padded(2 * MIB));
  await until(() => held().bytes >= 2 * MIB * COPIES);
  /** Posts a body that waits for bytes in vain. */
  const postInVain: typeof post = async (...request) => {
    let isAnswered = false;
    const answer = post(...request).finally(() => {
      isAnswered = true;
    });
    await advanceUntil(clock, 100, () => isAnswered);
    return answer;
  };
  for (const [what, body] of [
    ['declared', padded(2 * MIB)],
    ['chunked', chunked(padded(2 * MIB))],
  ] as const) {
    const got = await postInVain(url, body);
    t.equal(got.status, 503, what);
    t.equal(got.headers.get('retry-after'), '1');
    t.equal(got.json.code, 'unavailable');
  }
  const gzip = { 'content-encoding': 'gzip' };
  const inflated = await postInVain(url, gzipSync(padded(5 * MIB)), gzip);
  t.equal(inflated.status, 503, 'inflated');
  const small = post(url, events());
  release.resolve();
  t.equal((await first).status, 202);
  t.equal((await small).status, 202);
  t.equal(sink.batches.length, 2);
  t.strictSame(held(), NOTHING_HELD);
});

t.test('releases everything when a client disconnects within its body', async (t) => {
  const { url, held, sink, listeners } = await served(t);
  for (const framing of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
    const wire = await dial(url);
    wire.send(
      `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
    );
    await until(() => held().bytes !== 0);
    wire.close();
    await until(() => held().admissions === 0);
    t.strictSame(held(), NOTHING_HELD);
  }
  t.equal(sink.batches.length, 0);
  t.strictSame(listeners.logger.lines, []);
});

t.test('reserves bytes as they arrive, whatever size a request declares', async (t) => {
  const { url, held } = await served(t, { bodyRate: { bytesPerSecond: 0, period: 60_000 } });
  const wires = [];
  for (let i = 0; i < 4; i++) {
    const wire = await dial(url);
    wires.push(wire);
    wire.send(
      `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: ${MAX}\r\n\r\n`,
    );
  }
  await until(() => held().admissions >= 4);
  t.equal(held().bytes, 4 * FIRST_BYTES * COPIES, 'nothing has arrived');
  t.equal((await post(url, padded(MAX))).status, 202);
  wires[0]?.send(' '.repeat(MIB));
  await until(() => held().bytes >= COPIES * MIB);
  t.ok(held().bytes <= (2 * MIB + 4 * FIRST_BYTES) * COPIES, 'at most about twice of what arrived');
  for (const wire of wires) wire.close();
  await until(() => held().admissions === 0);
  t.strictSame(held(), NOTHING_HELD);
});

t.test('accepts the largest body, compressed or not, with the default limit', async (t) => {
  const { url, held } = await served(t, { inFlightBytes: 96 * MIB });
  t.equal((await post(url, padded(MAX))).status, 202);
  const stored = gzipSync(padded(MAX - 65_536), { level: 0 });
  t.equal((await post(url, stored, { 'content-encoding': 'gzip' })).status, 202, 'incompressible');
  t.strictSame(held(), NOTHING_HELD);
});

t.test('refuses a body that can never fit before it is read', async (t) => {
  const most = 3.5 * MIB;
  // An eighth is a reserve.
  const { url, held } = await served(t, { inFlightBytes: (most * COPIES * 8) / 7 });
  t.equal((await post(url, padded(most))).status, 202);
  for (const body of [padded(most + 1), chunked(padded(most + 1))]) {
    const { status, json } = await post(url, body);
    t.equal(status, 413);
    t.match(json, { code: 'body_too_large', message: /3\.5 MiB/ });
  }
  t.strictSame(held(), NOTHING_HELD);
});

t.test('answers 408 to a body that arrives too slowly, and releases everything', async (t) => {
  const bodyRate = { bytesPerSecond: 10_000, period: 100 };
  const { url, held } = await served(t, { bodyRate });
  for (const sent of [0, 999]) {
    const wire = await dial(url);
    wire.send(
      `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: ${MIB}\r\n\r\n${' '.repeat(sent)}`,
    );
    const { status, body } = await wire.answer();
    t.equal(status, 408);
    t.match(String(body), /more slowly than 10000 bytes per second/);
    await wire.ended();
  }
  t.strictSame(held(), NOTHING_HELD);
});

const ONE_LOOPBACK = process.platform === 'darwin' && 'this system has one loopback address';

for (const framing of [
  'Content-Length: 100000',
  'Content-Length: 9',
  'Transfer-Encoding: chunked',
  'Content-Length: 9\r\nExpect: 100-continue',
]) {
  t.test(
    `an unfinished body gives way to another client: ${framing.replace('\r\n', ', ')}`,
    { skip: ONE_LOOPBACK },
    async (t) => {
      const { url, held, refusals, listeners } = await served(t, { maxConnections: 2 });
      const slow = [await dial(url), await dial(url)];
      for (const wire of slow) {
        wire.send(
          `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
        );
        if (framing.includes('Expect')) t.equal((await wire.answer()).status, 100);
      }
      await until(() => held().admissions === 2);
      const other = await dial(url, '127.0.0.2');
      other.send(
        `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: ${events(1).length}\r\n\r\n${events(1)}`,
      );
      t.equal((await other.answer()).status, 202);
      const first = await Promise.race(slow.map((wire) => wire.answer()));
      t.match(first, { status: 503, headers: { 'retry-after': '1', connection: 'close' } });
      t.match(String(first.body), /more than its share/);
      await Promise.race(slow.map((wire) => wire.ended()));
      await until(() => held().admissions === 1);
      t.strictSame(refusals, ['unavailable']);
      t.strictSame(listeners.logger.lines, []);
      for (const wire of [...slow, other]) wire.close();
      await until(() => held().admissions === 0);
      t.strictSame(held(), NOTHING_HELD);
    },
  );
}

t.test('answers a malformed chunk 400 and releases everything', async (t) => {
  const { url, held } = await served(t);
  const wire = await dial(url);
  wire.send(
    `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n` +
      'Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n',
  );
  t.equal((await wire.answer()).status, 400);
  await wire.ended();
  await until(() => held().admissions === 0);
  t.strictSame(held(), NOTHING_HELD);
});
