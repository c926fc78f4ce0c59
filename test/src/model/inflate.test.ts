import zlib from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import {
  gunzipWithHandle,
  gunzipWithPublicApi,
  gzipOfDeflate,
  InflateError,
  inflatedSizeHint,
  inflateSync,
} from '../../../src/model/inflate.ts';

const MiB = 1024 * 1024;
const text = Buffer.from('a request body that compresses well '.repeat(3000));
const gzipped = zlib.gzipSync(text);

function reasonOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof InflateError) return error.reason;
    throw error;
  }
  return 'inflated';
}

const handle = gunzipWithHandle();
t.ok(handle, 'this version of Node has the inflate handle, so both implementations are tested');

for (const [way, gunzip] of [
  ['the reused handle', handle ?? gunzipWithPublicApi],
  ['the public API', gunzipWithPublicApi],
] as const) {
  const inflate = (body: Buffer, maxBytes = 25 * MiB) =>
    gunzip(body, maxBytes, inflatedSizeHint(body, 'gzip'));

  t.test(`gzip through ${way}`, async (t) => {
    t.test('restores any compressed bytes', async () => {
      fc.assert(
        fc.property(
          fc.uint8Array({ maxLength: 5000 }),
          fc.integer({ min: 0, max: 9 }),
          fc.nat(20_000),
          (bytes, level, hint) => {
            const body = zlib.gzipSync(bytes, { level });
            return gunzip(body, 25 * MiB, hint).equals(bytes);
          },
        ),
        { numRuns: 200 },
      );
    });

    t.test('keeps earlier results unchanged when it inflates other bodies', async (t) => {
      const first = inflate(gzipped);
      const other = inflate(zlib.gzipSync(Buffer.alloc(text.length, 'x')));
      t.ok(first.equals(text));
      t.equal(other[0], 0x78);
    });

    t.test('accepts exactly the limit and not one byte more', async (t) => {
      t.equal(inflate(gzipped, text.length).length, text.length);
      t.equal(
        reasonOf(() => inflate(gzipped, text.length - 1)),
        'too_large',
      );
      t.equal(inflate(zlib.gzipSync(Buffer.alloc(0)), 0).length, 0);
      t.equal(
        reasonOf(() => inflate(zlib.gzipSync(Buffer.from('a')), 0)),
        'too_large',
      );
    });

    t.test('stops a bomb at the limit, also one of many members', async (t) => {
      const zeros = zlib.gzipSync(Buffer.alloc(4 * MiB));
      t.equal(
        reasonOf(() => inflate(zeros, MiB)),
        'too_large',
      );
      t.equal(
        reasonOf(() => inflate(Buffer.concat(Array(40).fill(zeros)), 25 * MiB)),
        'too_large',
      );
    });

    t.test('reads several members as one body', async (t) => {
      const members = Buffer.concat([zlib.gzipSync('a'), zlib.gzipSync(''), gzipped]);
      t.ok(inflate(members).equals(Buffer.concat([Buffer.from('a'), text])));
    });

    t.test('refuses every truncation', async (t) => {
      const body = zlib.gzipSync('short');
      for (let length = 0; length < body.length; length++) {
        t.equal(
          reasonOf(() => inflate(body.subarray(0, length))),
          'damaged',
          `${length} bytes`,
        );
      }
    });

    t.test('refuses bytes after the end, also zeros', async (t) => {
      for (const trailing of ['junk', '\0\0\0\0', '\x1f\x8b\x08']) {
        const body = Buffer.concat([gzipped, Buffer.from(trailing, 'latin1')]);
        t.equal(
          reasonOf(() => inflate(body)),
          'damaged',
        );
      }
    });

    t.test('refuses a wrong checksum and a wrong length, and stays usable', async (t) => {
      for (const at of [gzipped.length - 8, gzipped.length - 4]) {
        const body = Buffer.from(gzipped);
        body.writeUInt8((body.readUInt8(at) ^ 1) & 0xff, at);
        t.equal(
          reasonOf(() => inflate(body)),
          'damaged',
        );
        t.ok(inflate(gzipped).equals(text));
      }
    });

    t.test('returns the right result with a wrong size hint', async (t) => {
      for (const hint of [0, 1, text.length - 1, text.length, text.length + 1, 0xffffffff]) {
        t.ok(gunzip(gzipped, 25 * MiB, hint).equals(text), `hint ${hint}`);
      }
    });
  });
}

t.test('applies the same limits to zstd', async (t) => {
  const body = zlib.zstdCompressSync(text);
  t.ok(inflateSync(body, 'zstd', text.length).equals(text));
  t.equal(
    reasonOf(() => inflateSync(body, 'zstd', text.length - 1)),
    'too_large',
  );
  t.equal(
    reasonOf(() => inflateSync(body.subarray(0, -5), 'zstd', 25 * MiB)),
    'damaged',
  );
  t.equal(
    reasonOf(() => inflateSync(Buffer.concat([body, Buffer.from('junk')]), 'zstd', 25 * MiB)),
    'damaged',
  );
  t.equal(
    reasonOf(() => inflateSync(Buffer.alloc(0), 'zstd', 25 * MiB)),
    'damaged',
  );
  t.ok(inflateSync(body, 'zstd', Number.MAX_SAFE_INTEGER).equals(text));
});

t.test('returns an uncompressed body unchanged, within the limit', async (t) => {
  t.equal(inflateSync(text, 'identity', text.length), text);
  t.equal(
    reasonOf(() => inflateSync(text, 'identity', text.length - 1)),
    'too_large',
  );
});

t.test('estimates the inflated size from the size that a compressed body declares', async (t) => {
  t.equal(inflatedSizeHint(gzipped, 'gzip'), text.length);
  t.equal(inflatedSizeHint(zlib.zstdCompressSync(text), 'zstd'), text.length);
  t.equal(inflatedSizeHint(zlib.zstdCompressSync(Buffer.alloc(100)), 'zstd'), 100);
  t.equal(inflatedSizeHint(zlib.zstdCompressSync(Buffer.alloc(100_000)), 'zstd'), 100_000);
  t.equal(inflatedSizeHint(text, 'identity'), text.length);
  t.equal(inflatedSizeHint(Buffer.from('no stream at all'), 'gzip'), 0);
  t.equal(inflatedSizeHint(Buffer.from('no zstd'), 'zstd'), 28);
  const lying = Buffer.from(zlib.gzipSync('a'));
  lying.writeUInt32LE(0xffffffff, lying.length - 4);
  t.ok(
    inflatedSizeHint(lying, 'gzip') <= lying.length * 1032,
    'at most the largest ratio of deflate',
  );
});

t.test('deflate', async (t) => {
  t.test('becomes a gzip body of the same bytes', async (t) => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 5000 }),
        fc.integer({ min: 0, max: 9 }),
        (bytes, level) => {
          const plain = Buffer.from(bytes);
          const body = zlib.deflateSync(plain, { level });
          const inflated = inflateSync(body, 'deflate', MiB);
          t.ok(inflated.equals(plain));
          const gzip = gzipOfDeflate(body, inflated);
          t.ok(zlib.gunzipSync(gzip).equals(plain));
          t.ok(inflateSync(gzip, 'gzip', MiB).equals(plain));
          t.equal(gzip.buffer.byteLength, gzip.length);
        },
      ),
    );
  });

  t.test('is bounded, and refuses other and damaged streams', async (t) => {
    const body = zlib.deflateSync(text);
    t.equal(inflateSync(body, 'deflate', text.length).length, text.length);
    const inflate = (bytes: Buffer, maxBytes = MiB) =>
      reasonOf(() => inflateSync(bytes, 'deflate', maxBytes));
    t.equal(inflate(body, text.length - 1), 'too_large');
    t.equal(inflate(Buffer.concat([body, Buffer.from('x')])), 'damaged');
    t.equal(inflate(body.subarray(0, -1)), 'damaged');
    t.equal(inflate(zlib.deflateRawSync(text)), 'damaged');
    t.equal(inflate(zlib.deflateSync(text, { dictionary: Buffer.from('request') })), 'damaged');
    t.equal(inflate(gzipped), 'damaged');
    t.equal(inflate(Buffer.alloc(0)), 'damaged');
  });
});
