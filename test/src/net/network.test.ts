import t from 'tap';
import { clientNetwork } from '../../../src/net/network.ts';

t.test('returns an IPv4 address in one notation', async (t) => {
  t.equal(clientNetwork('192.0.2.1'), '192.0.2.1');
  t.equal(clientNetwork('::ffff:192.0.2.1'), '192.0.2.1');
  t.equal(clientNetwork('::FFFF:192.0.2.1'), '192.0.2.1');
  for (const spelling of [
    '::ffff:c000:201',
    '0:0:0:0:0:ffff:c000:201',
    '0000::FFFF:C000:0201',
    '0:0:0:0:0:ffff:192.0.2.1',
    '::ffff:c000:201%eth0',
  ]) {
    t.equal(clientNetwork(spelling), '192.0.2.1', spelling);
  }
});

t.test('returns the /64 network of an IPv6 address in one notation', async (t) => {
  t.equal(clientNetwork('2001:db8:0:1::1'), '2001:db8:0:1::/64');
  t.equal(clientNetwork('2001:0db8:0000:0001:aaaa:bbbb:cccc:dddd'), '2001:db8:0:1::/64');
  t.equal(clientNetwork('2001:db8:0:2::1'), '2001:db8:0:2::/64');
  t.equal(clientNetwork('2001:db8::1:2:3:4:5'), '2001:db8:0:1::/64');
  t.equal(clientNetwork('fe80::1%eth0'), 'fe80:0:0:0::/64');
  t.equal(clientNetwork('::1'), '0:0:0:0::/64');
  t.equal(clientNetwork('::ffff:0:c000:201'), '0:0:0:0::/64', 'not mapped');
  t.equal(clientNetwork('0:0:ffff::1'), '0:0:ffff:0::/64');
  t.equal(clientNetwork('64:ff9b::192.0.2.1'), '64:ff9b:0:0::/64');
});

t.test('returns any other text unchanged', async (t) => {
  t.equal(clientNetwork(''), '');
  t.equal(clientNetwork('unix'), 'unix');
});
