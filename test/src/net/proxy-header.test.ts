import { isIP } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { MAX_V1_BYTES, MAX_V2_BYTES, readProxyHeader } from '../../../src/net/proxy-header.ts';

const v1 = (line: string) => readProxyHeader(Buffer.from(`${line}\r\n`, 'latin1'));

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const PORTS = Buffer.from([0x8b, 0x3e, 0x01, 0xbb]);
const FOUR = Buffer.concat([Buffer.from([198, 51, 100, 1, 203, 0, 113, 7]), PORTS]);
const SIX = Buffer.concat([
  Buffer.from('20010db8000000000000000000000001', 'hex'),
  Buffer.alloc(16),
  PORTS,
]);

function v2(command: number, family: number, rest: Buffer, length = rest.length): Buffer {
  const head = Buffer.from([command, family, length >> 8, length & 0xff]);
  return Buffer.concat([SIGNATURE, head, rest]);
}

t.test('reads version 1', async (t) => {
  const line = 'PROXY TCP4 198.51.100.1 203.0.113.7 35646 443';
  t.same(v1(line), { state: 'whole', length: line.length + 2, client: '198.51.100.1' });
  t.match(v1('PROXY TCP6 2001:DB8::1 ::1 1 65535'), { state: 'whole', client: '2001:db8::1' });
  t.match(v1('PROXY TCP4 1.2.3.4 5.6.7.8 0 0'), { state: 'whole', client: '1.2.3.4' });
  for (const rest of ['', ' ', ' anything at all', ' ::1 ::1 1 2']) {
    t.same(v1(`PROXY UNKNOWN${rest}`), {
      state: 'whole',
      length: 15 + rest.length,
      client: undefined,
    });
  }
});

t.test('refuses a malformed version 1', async (t) => {
  for (const line of [
    'PROXY',
    'PROXY ',
    'PROXY TCP4',
    'PROXY TCP5 1.2.3.4 5.6.7.8 1 2',
    'PROXY tcp4 1.2.3.4 5.6.7.8 1 2',
    'PROXY TCP4 1.2.3.4 5.6.7.8 1',
    'PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3',
    'PROXY TCP4  1.2.3.4 5.6.7.8 1 2',
    'PROXY TCP4 1.2.3.4 5.6.7.8 1 65536',
    'PROXY TCP4 1.2.3.4 5.6.7.8 01 2',
    'PROXY TCP4 1.2.3.4 5.6.7.8 -1 2',
    'PROXY TCP4 1.2.3.256 5.6.7.8 1 2',
    'PROXY TCP4 1.2.3.4 host 1 2',
    'PROXY TCP4 ::1 ::1 1 2',
    'PROXY TCP6 1.2.3.4 5.6.7.8 1 2',
    'PROXY TCP6 fe80::1%eth0 ::1 1 2',
    'GET / HTTP/1.1',
    '\r',
  ]) {
    t.equal(v1(line).state, 'malformed', line);
  }
});

t.test('reads a version 1 of the longest length, and refuses one more', async (t) => {
  const longest = `PROXY UNKNOWN ${'x'.repeat(MAX_V1_BYTES - 16)}`;
  t.match(v1(longest), { state: 'whole', length: MAX_V1_BYTES });
  t.equal(v1(`${longest}x`).state, 'malformed');
  const open = Buffer.from(`PROXY UNKNOWN ${'x'.repeat(200)}`);
  t.equal(readProxyHeader(open.subarray(0, MAX_V1_BYTES - 1)).state, 'incomplete');
  t.equal(readProxyHeader(open.subarray(0, MAX_V1_BYTES)).state, 'malformed');
});

t.test('reads version 2', async (t) => {
  const whole = { state: 'whole', length: 16 };
  t.same(readProxyHeader(v2(0x21, 0x11, FOUR)), { ...whole, length: 28, client: '198.51.100.1' });
  t.same(readProxyHeader(v2(0x21, 0x21, SIX)), {
    ...{ ...whole, length: 52 },
    client: '2001:db8:0:0:0:0:0:1',
  });
  const mapped = Buffer.from(
    '00000000000000000000ffffc6336401'.repeat(2).concat('00500050'),
    'hex',
  );
  t.match(readProxyHeader(v2(0x21, 0x21, mapped)), { length: 52, client: '198.51.100.1' });
  const extended = v2(0x21, 0x11, Buffer.concat([FOUR, Buffer.from([4, 0, 1, 0])]));
  t.match(readProxyHeader(extended), { length: 32, client: '198.51.100.1' });
  t.same(readProxyHeader(v2(0x21, 0x31, Buffer.alloc(216))), {
    ...{ ...whole, length: 232 },
    client: undefined,
  });
  const local = [
    v2(0x20, 0, NONE),
    v2(0x20, 0x11, FOUR),
    v2(0x20, 0x12, FOUR),
    v2(0x20, 0xff, NONE),
  ];
  for (const header of [...local, v2(0x21, 0, NONE)]) {
    const length = header.length;
    t.same(readProxyHeader(header), { state: 'whole', length, client: undefined });
  }
});

const NONE = Buffer.alloc(0);

t.test('refuses a malformed version 2', async (t) => {
  for (const [header, what] of [
    [v2(0x11, 0x11, FOUR), 'version 1'],
    [v2(0x31, 0x11, FOUR), 'version 3'],
    [v2(0x22, 0x11, FOUR), 'an unknown command'],
    [v2(0x21, 0x12, FOUR), 'UDP'],
    [v2(0x21, 0x41, FOUR), 'an unknown family'],
    [v2(0x21, 0x11, FOUR.subarray(0, 11)), 'addresses of 11 bytes'],
    [v2(0x21, 0x21, SIX.subarray(0, 35)), 'IPv6 addresses of 35 bytes'],
  ] as const) {
    t.equal(readProxyHeader(header).state, 'malformed', what);
  }
});

t.test('reads a version 2 of the longest length, and refuses one more', async (t) => {
  const longest = Buffer.concat([FOUR, Buffer.alloc(MAX_V2_BYTES - FOUR.length)]);
  t.match(readProxyHeader(v2(0x21, 0x11, longest)), { state: 'whole', client: '198.51.100.1' });
  const declared = v2(0x21, 0x11, FOUR, MAX_V2_BYTES + 1);
  t.equal(readProxyHeader(declared).state, 'malformed', 'before its bytes arrive');
});

const header = fc.oneof(
  fc.tuple(fc.ipV4(), fc.nat(65_535), fc.nat(65_535)).map(([ip, from, to]) => ({
    client: ip,
    bytes: Buffer.from(`PROXY TCP4 ${ip} 127.0.0.1 ${from} ${to}\r\n`),
  })),
  fc.tuple(fc.ipV4(), fc.uint8Array({ maxLength: 40 })).map(([ip, more]) => ({
    client: ip,
    bytes: v2(
      0x21,
      0x11,
      Buffer.concat([Buffer.from(ip.split('.').map(Number)), Buffer.alloc(8), more]),
    ),
  })),
);

t.test('waits for each prefix of a header, and leaves the bytes behind it', async () => {
  fc.assert(
    fc.property(header, fc.uint8Array({ maxLength: 200 }), ({ bytes, client }, rest) => {
      for (let length = 0; length < bytes.length; length++) {
        if (readProxyHeader(bytes.subarray(0, length)).state !== 'incomplete') return false;
      }
      const read = readProxyHeader(Buffer.concat([bytes, rest]));
      return read.state === 'whole' && read.length === bytes.length && read.client === client;
    }),
  );
});

t.test('names an address or none, within the bytes, for any bytes', async () => {
  const start = fc.constantFrom(NONE, SIGNATURE, Buffer.from('PROXY TCP4 '), v2(0x21, 0x11, FOUR));
  fc.assert(
    fc.property(start, fc.uint8Array({ maxLength: 300 }), (before, after) => {
      const bytes = Buffer.concat([before, after]);
      const read = readProxyHeader(bytes);
      if (read.state !== 'whole') return true;
      return read.length <= bytes.length && (read.client === undefined || isIP(read.client) !== 0);
    }),
  );
});
