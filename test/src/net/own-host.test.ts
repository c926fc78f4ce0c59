import t from 'tap';
import { ownHostCheck } from '../../../src/net/own-host.ts';

t.test('accepts its own name, addresses, loopback names and allowed names', async (t) => {
  const check = ownHostCheck('Gateway.test', ['metrics.example']);
  for (const host of [
    'gateway.test',
    'gateway.test:4319',
    'GATEWAY.TEST.',
    'localhost:1',
    'a.localhost',
    '127.0.0.1:4319',
    '10.1.2.3',
    '[::1]:4319',
    '[2001:db8::1]',
    'metrics.example',
    undefined,
  ]) {
    t.equal(check({ host }), undefined, String(host));
  }
});

t.test('refuses every other name and malformed headers', async (t) => {
  const check = ownHostCheck('gateway.test', ['metrics.example']);
  for (const host of [
    'evil.test',
    'gateway.test.evil.test',
    'xlocalhost',
    'sub.metrics.example',
    '127.0.0.1.evil.test',
    '127.0.0.1@evil.test',
    'evil.test/gateway.test',
    '::1',
    '[::1',
    '*',
    '',
    'localhost:123456',
  ]) {
    t.match(check({ host }), { header: 'host', reason: /Host/ }, host);
  }
});

t.test('refuses the Origin of another site', async (t) => {
  const check = ownHostCheck('gateway.test', []);
  const host = 'gateway.test:4319';
  t.equal(check({ host, origin: 'http://gateway.test:4319' }), undefined);
  t.equal(check({ host, origin: 'https://GATEWAY.test:4319' }), undefined);
  for (const origin of [
    'http://gateway.test',
    'http://evil.test',
    'http://gateway.test:4319/',
    'http://a@gateway.test:4319',
    'file://gateway.test:4319',
    'null',
    '',
  ]) {
    t.match(check({ host, origin }), { header: 'origin', reason: /Origin/ }, origin);
  }
  const withoutHost = check({ origin: 'http://gateway.test' });
  t.match(withoutHost, { header: 'origin', reason: /Origin/ });
});

t.test('accepts every name with *', async (t) => {
  t.equal(ownHostCheck('127.0.0.1', ['*'])({ host: 'any.test' }), undefined);
});
