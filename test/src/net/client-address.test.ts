import { isIP } from 'node:net';
import fc from 'fast-check';
import t from 'tap';
import { clientAddresses } from '../../../src/net/client-address.ts';
import { trustedProxies } from '../../../src/schema/trusted-proxies.ts';

const PROXY = '10.0.0.1';
const clientOf = clientAddresses(['10.0.0.0/8', '2001:db8:1::/48', '192.0.2.9']);

function named(headers: Record<string, string | string[]>, peer = PROXY): string {
  return clientOf(peer, new Map(Object.entries(headers).map(([k, v]) => [k, [v].flat()])));
}

t.test('reads X-Forwarded-For from its end, past trusted proxies', async (t) => {
  const cases: [string | string[], string][] = [
    ['198.51.100.1', '198.51.100.1'],
    ['203.0.113.5, 198.51.100.1', '198.51.100.1'],
    ['203.0.113.5, 198.51.100.1, 10.9.9.9', '198.51.100.1'],
    [['203.0.113.5', '198.51.100.1, 192.0.2.9'], '198.51.100.1'],
    ['nonsense, 198.51.100.1', '198.51.100.1'],
    ['10.2.2.2, 10.3.3.3', '10.2.2.2'],
    ['198.51.100.1:4711', '198.51.100.1'],
    ['[2001:DB8::1]:4711', '2001:db8::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['::ffff:198.51.100.1', '198.51.100.1'],
    ['::ffff:c633:6401', '198.51.100.1'],
  ];
  for (const [header, expected] of cases) {
    t.equal(named({ 'x-forwarded-for': header }), expected, String(header));
  }
  t.equal(named({ 'x-forwarded-for': '198.51.100.1' }, '::ffff:10.0.0.1'), '198.51.100.1');
});

t.test('reads Forwarded of RFC 7239', async (t) => {
  const cases: [string, string][] = [
    ['for=198.51.100.1', '198.51.100.1'],
    ['For="198.51.100.1:80";proto=https;by=10.0.0.1', '198.51.100.1'],
    ['for=203.0.113.5, proto=http; for="[2001:db8::17]:4711"', '2001:db8::17'],
    ['for="a,b", for=198.51.100.1', '198.51.100.1'],
    ['for=198.51.100.1, for=10.0.0.7', '198.51.100.1'],
    ['for="a\\",b", for=198.51.100.1', '198.51.100.1'],
    ['for="\\", for=198.51.100.1', '198.51.100.1'],
    [',,for=198.51.100.1,,', '198.51.100.1'],
    ['by=";for=203.0.113.5;";for=198.51.100.1', '198.51.100.1'],
  ];
  for (const [header, expected] of cases) t.equal(named({ forwarded: header }), expected, header);
});

/** A reader that looks for the end of each quote takes hours for these. */
t.test('reads a Forwarded of many quotes without an end in linear time', async (t) => {
  for (const forwarded of [`"${'\\"'.repeat(1e6)}`, `for="${';for="\\'.repeat(1e6)}`]) {
    t.equal(named({ forwarded }), PROXY);
  }
});

t.test('falls back to the peer', async (t) => {
  for (const header of [
    '',
    ',',
    'x',
    '198.51.100.1,',
    '999.1.1.1',
    '198.51.100.1:999999',
    'a, 10.1.1.1',
  ]) {
    t.equal(named({ 'x-forwarded-for': header }), PROXY, header);
  }
  for (const header of [
    '',
    'for=unknown',
    'for=_hidden',
    'for="',
    'for=1.2.3.4;for=1.2.3.5',
    'by=1.2.3.4',
  ]) {
    t.equal(named({ forwarded: header }), PROXY, header);
  }
  t.equal(named({ 'x-forwarded-for': '198.51.100.1' }, '11.0.0.1'), '11.0.0.1', 'one past 10/8');
  t.equal(named({ 'x-forwarded-for': '198.51.100.1' }, '10.255.255.255'), '198.51.100.1');
  const both = { 'x-forwarded-for': '198.51.100.1', forwarded: 'for=203.0.113.5' };
  t.equal(named(both), PROXY, 'headers that disagree');
  t.equal(named({ ...both, forwarded: 'for=198.51.100.1' }), '198.51.100.1', 'headers that agree');
  t.equal(clientAddresses([])(PROXY, new Map([['x-forwarded-for', ['1.2.3.4']]])), PROXY);
});

t.test('names an address or the peer for any header', async () => {
  const text = fc.oneof(fc.string(), fc.stringMatching(/^[for=",;:.[\]0-9a-f ]{0,40}$/));
  fc.assert(
    fc.property(text, text, fc.boolean(), (list, forwarded, isTrusted) => {
      const peer = isTrusted ? PROXY : '203.0.113.77';
      const client = named({ 'x-forwarded-for': list, forwarded }, peer);
      return isIP(client) !== 0 && (isTrusted || client === peer);
    }),
  );
  fc.assert(
    fc.property(fc.ipV4(), text, (address, before) => {
      const client = named({ 'x-forwarded-for': `${before},${address}` });
      return address.startsWith('10.') || address === '192.0.2.9' || client === address;
    }),
  );
});

t.test('accepts addresses and CIDR blocks as trusted_proxies', async (t) => {
  for (const block of ['10.0.0.0/8', '10.0.0.0/32', '10.0.0.0/0', '::/128', '2001:db8::1']) {
    t.ok(trustedProxies().safeParse([block]).success, block);
  }
  for (const block of [
    '10.0.0.0/33',
    '::/129',
    '10.0.0/8',
    'proxy',
    '10.0.0.0/8/8',
    '10.0.0.0/',
    '',
  ]) {
    t.notOk(trustedProxies().safeParse([block]).success, block);
  }
});
