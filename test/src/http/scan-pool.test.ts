import { gzipSync } from 'node:zlib';
import t from 'tap';
import { createScanner } from '../../../src/http/scan-pool.ts';
import { SMALL_BODY_BYTES } from '../../../src/model/formats.ts';
import { lengthDelimited } from '../../../src/model/otlp/wire.ts';
import { nativeEvent } from '../../helper/batches.ts';

const WANTED = { format: 'native', encoding: 'identity', maxItems: 1000 } as const;

/** A body that is scanned in the thread. */
function largeBody(): Buffer {
  const inputs = { text: 'x'.repeat(SMALL_BODY_BYTES) };
  return Buffer.from(JSON.stringify({ events: [{ ...nativeEvent(), inputs }] }));
}

t.test('scans large bodies of several projects in rotation', async (t) => {
  const scanner = createScanner();
  t.teardown(() => scanner.close());
  const scanned: string[] = [];
  const scan = async (projectId: string): Promise<void> => {
    await scanner.prepare(largeBody(), WANTED, projectId);
    scanned.push(projectId);
  };
  await Promise.all(['loud', 'loud', 'loud', 'loud', 'quiet', 'quiet'].map(scan));
  t.same(scanned, ['loud', 'loud', 'quiet', 'loud', 'quiet', 'loud']);
});

t.test('sums the attachments of large runs in the thread', async (t) => {
  const scanner = createScanner();
  t.teardown(() => scanner.close());
  const note = { mime_type: 'text/plain', bytes: 7, sha256: 'ab'.repeat(32) };
  const inputs = { text: 'x'.repeat(SMALL_BODY_BYTES) };
  const body = JSON.stringify({
    post: [
      { id: 'a', attachments: { note } },
      { id: 'b', inputs },
    ],
  });
  const wanted = { ...WANTED, format: 'runs', judges: true } as const;
  const { index } = await scanner.prepare(Buffer.from(body), wanted, 'project');
  t.match(index, { besideBytes: Float64Array.of(7, 0) });
});

t.test('rejects the bodies that wait for the thread when it closes', async (t) => {
  const scanner = createScanner();
  const scan = async () => scanner.prepare(largeBody(), WANTED, 'project');
  const scans = Promise.allSettled([scan(), scan(), scan()]);
  await scanner.close();
  for (const { status } of await scans) t.equal(status, 'rejected');
  await t.rejects(scan(), { code: 'scan_failed' });
});

t.test('converts log records of more than 64 KiB in the thread', async (t) => {
  const scanner = createScanner();
  t.teardown(() => scanner.close());
  const body = (bytes: number) => {
    const [before, after] = ['{"resourceLogs":[],"x":"', '"}'];
    return Buffer.from(`${before}${'x'.repeat(bytes - before.length - after.length)}${after}`);
  };
  const wanted = { ...WANTED, format: 'otlp_json' } as const;
  const isInThread = async (bytes: number, logs: boolean) => {
    const prepared = scanner.prepare(body(bytes), { ...wanted, logs }, 'project');
    t.equal((await prepared).index.count, 0);
    return prepared instanceof Promise;
  };
  t.equal(await isInThread(65_536, true), false);
  t.equal(await isInThread(65_537, true), true);
  t.equal(await isInThread(SMALL_BODY_BYTES, false), false);
});

t.test('merges more than 16,384 fields of a small body in the thread', async (t) => {
  const scanner = createScanner();
  t.teardown(() => scanner.close());
  const resource = lengthDelimited(10, Buffer.alloc(0));
  const wanted = { ...WANTED, format: 'otlp_proto' } as const;
  for (const [encoding, encoded] of [
    ['identity', (body: Buffer) => body],
    ['gzip', (body: Buffer) => gzipSync(body)],
  ] as const) {
    const isInThread = async (repeated: number) => {
      const resources = Buffer.concat(Array(repeated).fill(resource));
      const body = encoded(lengthDelimited(10, resources));
      const prepared = scanner.prepare(body, { ...wanted, encoding }, 'project');
      t.same((await prepared).body, lengthDelimited(10, resource));
      return prepared instanceof Promise;
    };
    // The field around them counts, too.
    t.equal(await isInThread(16_383), false);
    t.equal(await isInThread(16_384), true);
  }
});

t.test(
  'keeps the merged form of a request with repeated messages, and nothing beside it',
  async (t) => {
    const scanner = createScanner();
    t.teardown(() => scanner.close());
    const value = (text: string): Buffer =>
      lengthDelimited(18, lengthDelimited(10, Buffer.from(text)));
    const attribute = Buffer.concat([lengthDelimited(10, Buffer.from('a')), value('first')]);
    for (const length of [1, SMALL_BODY_BYTES]) {
      const last = value('x'.repeat(length));
      const span = lengthDelimited(18, lengthDelimited(74, Buffer.concat([attribute, last])));
      const body = gzipSync(lengthDelimited(10, lengthDelimited(18, span)));
      const wanted = { ...WANTED, format: 'otlp_proto', encoding: 'gzip' } as const;
      const prepared = await scanner.prepare(body, wanted, 'project');
      t.equal(prepared.encoding, 'identity');
      t.same(prepared.body, prepared.index.bytes);
      t.notOk(prepared.body.includes('first'));
      t.ok(prepared.body.includes('x'.repeat(length)));
    }
  },
);
