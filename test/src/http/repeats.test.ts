import fc from 'fast-check';
import t from 'tap';
import { repeatsOf, SMALL_BODY, tagOf } from '../../../src/http/repeats.ts';

t.test('remembers a bounded number of requests in a window', async (t) => {
  const repeats = repeatsOf({ enabled: true, window: 1000, max_entries: 7 });
  const admitted = (project: string, now: number) => {
    let count = 0;
    while (repeats?.admit(project, now) === true) count++;
    return count;
  };
  t.equal(admitted('a', 0), 4, 'as many as are left for others, and one');
  t.equal(admitted('b', 0), 2);
  t.equal(admitted('c', 0), 1);
  t.equal(admitted('d', 999), 0, 'none is left');
  t.equal(admitted('b', 1000), 4, 'in the next window');
  t.equal(admitted('b', 0), 4, 'also after the clock was set back');
});

t.test('remembers the only request of a bound of 1, and none if disabled', async (t) => {
  const one = repeatsOf({ enabled: true, window: 1000, max_entries: 1 });
  t.same([one?.admit('a', 0), one?.admit('b', 0)], [true, false]);
  t.equal(repeatsOf({ enabled: false, window: 1000, max_entries: 1 }), undefined);
});

t.test('tells bodies apart', async (t) => {
  const bytes = fc.uint8Array({ maxLength: 100 }).map((array) => Buffer.from(array));
  fc.assert(fc.property(bytes, bytes, (a, b) => a.equals(b) === (tagOf(a) === tagOf(b))));
  fc.assert(
    fc.property(bytes, fc.nat({ max: 99 }), fc.integer({ min: 1, max: 255 }), (body, at, bits) => {
      if (body.length === 0) return true;
      const other = Buffer.from(body);
      const i = at % body.length;
      other.writeUInt8(other.readUInt8(i) ^ bits, i);
      return tagOf(other) !== tagOf(body);
    }),
  );
  t.not(tagOf(Buffer.alloc(0)), tagOf(Buffer.alloc(1)));
});

t.test('tells bodies apart at the size from which another hash is used', async (t) => {
  for (const size of [SMALL_BODY, SMALL_BODY + 1]) {
    const body = Buffer.alloc(size, 1);
    const tag = tagOf(body);
    t.equal(Buffer.from(tag, 'base64').length, 16, 'has 128 bits');
    for (const at of [0, size - 1]) {
      const other = Buffer.from(body);
      other[at] = 2;
      t.not(tagOf(other), tag);
    }
    t.not(tagOf(body.subarray(1)), tag);
  }
});

t.test('ignores the time of a gzip header, and only that', async (t) => {
  const at = (time: number, length = 20) => {
    const body = Buffer.alloc(length, 7);
    body.writeUInt16BE(0x1f8b);
    body.writeUInt32LE(time, 4);
    return body;
  };
  for (const length of [8, 9, 20, SMALL_BODY, SMALL_BODY + 1]) {
    for (const time of [1, 0x7fffffff, 0xffffffff]) {
      t.equal(tagOf(at(time, length)), tagOf(at(0, length)));
    }
  }
  const noGzip = (time: number) => {
    const body = at(time);
    body.writeUInt8(0x8c, 1);
    return body;
  };
  t.not(tagOf(noGzip(1)), tagOf(noGzip(0)));
  t.not(tagOf(at(0).subarray(0, 7)), tagOf(at(1).subarray(0, 7)), 'one byte too short for a time');
  const flags = at(1);
  flags.writeUInt8(1, 8);
  t.not(tagOf(flags), tagOf(at(1)));
});
