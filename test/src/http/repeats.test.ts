import fc from 'fast-check';
import t from 'tap';
import { HASH_BLOCK } from '../../../src/http/body-hash.ts';
import { repeatsOf, requestTypeOf, tagOf } from '../../../src/http/repeats.ts';
import { aHead } from '../../helper/sink.ts';

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

const ROUTE = {
  method: 'POST',
  path: '/v1/traces',
  contentType: 'application/json',
  encoding: '',
};
const tag = (body: Buffer) => tagOf(ROUTE, body);

t.test('tells bodies apart', async (t) => {
  const bytes = fc.uint8Array({ maxLength: 100 }).map((array) => Buffer.from(array));
  fc.assert(fc.property(bytes, bytes, (a, b) => a.equals(b) === (tag(a) === tag(b))));
  t.not(tag(Buffer.alloc(0)), tag(Buffer.alloc(1)), 'also of zeros');
  t.not(tag(Buffer.alloc(32)), tag(Buffer.alloc(33)));
  t.equal(Buffer.from(tag(Buffer.alloc(9)), 'base64').length, 18, 'by 144 bits');
});

t.test('tells the same body apart by the route and type', async (t) => {
  const body = Buffer.from('{}');
  const others = [
    { method: 'PATCH' },
    { path: '/v1/logs' },
    { contentType: 'application/x-protobuf' },
    { encoding: 'gzip' },
    { contentType: 'application/jsongzip' },
  ];
  const tags = others.map((other) => tagOf({ ...ROUTE, ...other }, body));
  t.equal(new Set([tag(body), ...tags]).size, 6);
  for (const [i, other] of others.entries()) {
    t.equal(tagOf({ ...ROUTE, ...other }, Buffer.from('{}')), tags[i], 'the same again');
    t.equal(tag(Buffer.from('{}')), tag(body));
  }
});

t.test('ignores the time of a gzip header, and only that', async (t) => {
  const at = (time: number, length = 20) => {
    const body = Buffer.alloc(length, 7);
    body.writeUInt16BE(0x1f8b);
    body.writeUInt32LE(time, 4);
    return body;
  };
  for (const length of [8, 9, 20, HASH_BLOCK, HASH_BLOCK + 1]) {
    for (const time of [1, 0x7fffffff, 0xffffffff]) {
      const body = at(time, length);
      t.equal(tag(body), tag(at(0, length)));
      t.equal(body.readUInt32LE(4), time, 'the body is unchanged');
    }
  }
  const noGzip = (time: number) => {
    const body = at(time);
    body.writeUInt8(0x8c, 1);
    return body;
  };
  t.not(tag(noGzip(1)), tag(noGzip(0)));
  t.not(tag(at(0).subarray(0, 7)), tag(at(1).subarray(0, 7)), 'one byte too short for a time');
  const flags = at(1);
  flags.writeUInt8(1, 8);
  t.not(tag(flags), tag(at(1)));
});

t.test('the tags of many paths stay the same', async (t) => {
  const path = (i: number) => tagOf({ ...ROUTE, path: `/runs/${i}` }, Buffer.from('{}'));
  const first = path(0);
  const all = Array.from({ length: 2100 }, (_, i) => path(i));
  t.equal(new Set(all).size, all.length);
  t.equal(path(0), first, 'after more paths than are kept');
});

t.test('the type of a request is that of its headers', async (t) => {
  const typeOf = (headers: [string, string[]][]) =>
    requestTypeOf(aHead({ path: '/a', headers: new Map(headers) }));
  t.same(typeOf([]), { method: 'POST', path: '/a', contentType: '', encoding: '' });
  t.same(
    typeOf([
      ['content-type', ['a', 'b']],
      ['content-encoding', ['gzip']],
    ]),
    {
      ...{ method: 'POST', path: '/a', contentType: 'a,b', encoding: 'gzip' },
    },
  );
  t.match(typeOf([['grpc-encoding', ['zstd']]]), { encoding: 'zstd' });
});
