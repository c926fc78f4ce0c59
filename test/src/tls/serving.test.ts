import { EventEmitter, once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { request } from 'node:https';
import { connect, Socket } from 'node:net';
import { join } from 'node:path';
import type { ConnectionOptions, TLSSocket, Server as TlsServer } from 'node:tls';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { renderEnvelopeRefusal } from '../../../src/http/envelope.ts';
import { answer } from '../../../src/http/exchange.ts';
import type { Route } from '../../../src/http/routes.ts';
import { serverTls } from '../../../src/schema/server-tls.ts';
import { tlsGateOf } from '../../../src/tls/secured.ts';
import { openTls } from '../../../src/tls/serving.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { recordingLogger, recordingMetrics } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

const fixture = (name: string) => join(import.meta.dirname, '../../fixtures/tls', name);
const CA = readFileSync(fixture('ca.pem'));
const OWN = { cert: readFileSync(fixture('client.pem')), key: readFileSync(fixture('client.key')) };
const SERVER = { cert_file: fixture('server.pem'), key_file: fixture('server.key') };

const hello: Route = {
  method: 'GET',
  path: '/hello',
  renderRefusal: renderEnvelopeRefusal,
  handler: (exchange) => answer(exchange, { status: 200, contentType: 'text/plain', body: 'hi' }),
};

/** An open listener with TLS; its clock is the test's. */
async function listening(t: Test, tls: object, clock: FakeClock = fakeClock()) {
  const listeners = testListeners(undefined, clock);
  const settings = { ...USUAL_LIMITS, tls: serverTls().parse(tls) };
  const listener = await listeners.bind('127.0.0.1:0', settings);
  listener.route(hello);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  return { listener, listeners, clock, url: new URL(urlOf(listener)) };
}

type Got = { readonly status: number; readonly peer: string };

/** A request over a connection of its own. */
async function get(url: URL, more: ConnectionOptions = {}): Promise<Got> {
  const asked = request(new URL('/hello', url), { ca: CA, agent: false, ...more });
  asked.end();
  const [response] = await once(asked, 'response');
  const peer = (response.socket as TLSSocket).getPeerCertificate().subject.CN;
  response.resume();
  return { status: response.statusCode, peer: String(peer) };
}

const portOf = (url: URL) => Number(url.port);

t.test('serves requests over TLS as without', async (t) => {
  const { url } = await listening(t, SERVER);
  t.equal(url.protocol, 'https:');
  t.same(await get(url), { status: 200, peer: 'server' });
  await t.rejects(get(url, { ca: [] }), { code: /SELF_SIGNED|UNABLE_TO/ }, 'without the authority');
});

/** Codes of a connection that the server ended during or right after the handshake. */
const PROTOCOL_VERSION = { message: /protocol version|unsupported protocol/i };
const REFUSED = { code: /^(ECONNRESET|EPIPE|EPROTO|ERR_SSL_.*ALERT.*)$/ };

t.test('refuses versions of TLS outside min_version and max_version', async (t) => {
  const newest = await listening(t, { ...SERVER, min_version: '1.3' });
  await t.rejects(get(newest.url, { maxVersion: 'TLSv1.2' }), PROTOCOL_VERSION);
  t.same(await get(newest.url), { status: 200, peer: 'server' });
  const oldest = await listening(t, { ...SERVER, max_version: '1.2' });
  await t.rejects(get(oldest.url, { minVersion: 'TLSv1.3' }), PROTOCOL_VERSION);
});

t.test(
  'with client_ca_file, refuses clients without a certificate of that authority',
  async (t) => {
    const { url } = await listening(t, { ...SERVER, client_ca_file: fixture('ca.pem') });
    t.same(await get(url, OWN), { status: 200, peer: 'server' });
    await t.rejects(get(url), REFUSED, 'without a certificate');
    const foreign = await listening(t, { ...SERVER, client_ca_file: fixture('server.pem') });
    await t.rejects(get(foreign.url, OWN), REFUSED, 'of another authority');
  },
);

t.test('closes a plain connection to a TLS port, and serves others', async (t) => {
  const { url } = await listening(t, SERVER);
  const plain = connect(portOf(url), '127.0.0.1');
  plain.on('error', () => {});
  plain.write('GET /hello HTTP/1.1\r\nHost: t\r\n\r\n');
  await once(plain, 'close');
  t.notMatch(String(plain.read() ?? ''), /200/);
  t.equal((await get(url)).status, 200);
});

t.test('cuts a stalled handshake at the time-out', async (t) => {
  const tls = serverTls().parse(SERVER);
  const listeners = testListeners(undefined, fakeClock());
  const listener = await listeners.bind('127.0.0.1:0', {
    ...USUAL_LIMITS,
    readHeaderTimeout: 100,
    tls,
  });
  listener.route(hello);
  await listener.open();
  t.teardown(() => listeners.close());
  const silent = connect(portOf(new URL(urlOf(listener))), '127.0.0.1');
  silent.on('error', () => {});
  await once(silent, 'close');
  const stopping = connect(portOf(new URL(urlOf(listener))), '127.0.0.1');
  stopping.on('error', () => {});
  await once(stopping, 'connect');
  await listener.close(AbortSignal.timeout(5_000));
  t.pass('a stop does not wait for a stalled handshake');
});

t.test('changed files serve new connections, and open connections go on', async (t) => {
  const directory = t.testdir({});
  const file = (name: string) => join(directory, 'current', name);
  // Orchestrators replace secrets so: a link points to another directory.
  const place = (version: string, from: string) => {
    const target = join(directory, version);
    mkdirSync(target, { recursive: true });
    for (const part of ['pem', 'key']) {
      if (from === 'nonsense') writeFileSync(join(target, `tls.${part}`), 'nonsense');
      else copyFileSync(fixture(`${from}.${part}`), join(target, `tls.${part}`));
    }
    rmSync(join(directory, 'current'), { force: true });
    symlinkSync(target, join(directory, 'current'));
  };
  place('v1', 'server');
  const files = { cert_file: file('tls.pem'), key_file: file('tls.key') };
  const { url, clock, listeners } = await listening(t, files);
  const kept = connectTls({ port: portOf(url), host: '127.0.0.1', ca: CA });
  await once(kept, 'secureConnect');

  const afterReload = (condition: () => Promise<boolean> | boolean): Promise<void> =>
    until(() => {
      clock.advance(10_000);
      return condition();
    });
  place('v2', 'client');
  await afterReload(async () => (await get(url)).peer === 'client');
  place('v3', 'nonsense');
  const failed = () =>
    listeners.metrics.value('tracectl_tls_reloads_total', { outcome: 'failure' });
  await afterReload(() => failed() > 0);
  t.equal((await get(url)).peer, 'client', 'the previous certificate stays in use');
  place('v4', 'server');
  await afterReload(async () => (await get(url)).peer === 'server');

  kept.write('GET /hello HTTP/1.1\r\nHost: t\r\n\r\n');
  const [answered] = await once(kept, 'data');
  t.match(String(answered), /^HTTP\/1.1 200/, 'the first connection stayed open');
  kept.destroy();
});

t.test('a listener that closes during a look at its files looks no more', async (t) => {
  const directory = t.testdir({});
  const files = { cert_file: join(directory, 'tls.pem'), key_file: join(directory, 'tls.key') };
  copyFileSync(SERVER.cert_file, files.cert_file);
  copyFileSync(SERVER.key_file, files.key_file);
  const clock = fakeClock();
  const logger = recordingLogger();
  const serving = await openTls(serverTls().parse(files), {
    ...{ clock, logger, metrics: recordingMetrics(), endpoint: 'here' },
    ...{ handshakeTimeout: 1000, protocols: ['http/1.1'] },
  });
  copyFileSync(fixture('client.pem'), files.cert_file);
  copyFileSync(fixture('client.key'), files.key_file);
  clock.advance(10_000);
  serving.close();
  await until(() => logger.lines.length > 0);
  t.match(logger.lines, [{ message: 'Certificate replaced' }]);
  t.equal(clock.pending(), 0);
});

t.test('looks at no file again with a reload_interval of 0', async (t) => {
  const clock = fakeClock();
  const serving = await openTls(serverTls().parse({ ...SERVER, reload_interval: '0s' }), {
    ...{ clock, logger: recordingLogger(), metrics: recordingMetrics(), endpoint: 'here' },
    ...{ handshakeTimeout: 1000, protocols: ['http/1.1'] },
  });
  t.equal(clock.pending(), 0);
  serving.close();
});

t.test('forgets a connection that ends during its handshake', async (t) => {
  const server = createServer();
  const gate = tlsGateOf(server, () => {});
  gate.use(new EventEmitter() as TlsServer);
  const connected = (remotePort: number) => {
    const socket = Object.assign(new Socket(), { isDestroyed: false });
    Object.defineProperty(socket, 'remotePort', { value: remotePort });
    socket.destroy = () => Object.assign(socket, { isDestroyed: true });
    server.emit('connection', socket);
    return socket;
  };
  const ended = connected(1);
  ended.emit('close');
  // The peer uses its port again before the first connection has closed.
  const first = connected(2);
  const second = connected(2);
  first.emit('close');
  gate.close();
  t.same(
    [ended, first, second].map(({ isDestroyed }) => isDestroyed),
    [false, false, true],
  );
});

t.test('a reload turns TLS of a port on and off', async (t) => {
  const listeners = testListeners(undefined, fakeClock());
  const probe = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
  await probe.open();
  const { host } = new URL(urlOf(probe));
  await probe.close(AbortSignal.abort());
  const first = await listeners.bind(host, USUAL_LIMITS);
  first.route(hello);
  await first.open();
  const tls = serverTls().parse(SERVER);
  await t.rejects(listeners.bind(host, { ...USUAL_LIMITS, tls }), /different values of tls: /);
  const second = await listeners.nextGraph().bind(host, { ...USUAL_LIMITS, tls });
  second.route(hello);
  await second.open();
  await first.close(AbortSignal.abort());
  t.equal((await get(new URL(`https://${host}`))).status, 200);
  const third = await listeners.nextGraph().bind(host, USUAL_LIMITS);
  third.route(hello);
  await third.open();
  await second.close(AbortSignal.abort());
  t.equal((await fetch(`http://${host}/hello`)).status, 200);
  await third.close(AbortSignal.abort());
  await listeners.close();
});

t.test('a graph that leaves before the former one gives its settings back', async (t) => {
  const listeners = testListeners(undefined, fakeClock());
  const probe = await listeners.bind('127.0.0.1:0', USUAL_LIMITS);
  await probe.open();
  const { host } = new URL(urlOf(probe));
  await probe.close(AbortSignal.abort());
  const tls = serverTls().parse(SERVER);
  const both = [USUAL_LIMITS, { ...USUAL_LIMITS, tls }];
  for (const [running, failing] of [both, both.toReversed()]) {
    const former = await listeners.nextGraph().bind(host, { ...USUAL_LIMITS, ...running });
    former.route(hello);
    await former.open();
    const answers = async () =>
      running === USUAL_LIMITS
        ? (await fetch(`http://${host}/hello`)).status
        : (await get(new URL(`https://${host}`))).status;
    t.equal(await answers(), 200);
    const more = { ...USUAL_LIMITS, ...failing, maxConnectionsPerAddress: 1 };
    const next = await listeners.nextGraph().bind(host, more);
    await next.open();
    t.not(new URL(urlOf(former)).protocol, running === USUAL_LIMITS ? 'http:' : 'https:');
    await next.close(AbortSignal.abort());
    t.equal(new URL(urlOf(former)).protocol, running === USUAL_LIMITS ? 'http:' : 'https:');
    t.equal(await answers(), 200);
    const silent = [0, 1].map(() => connect(Number(new URL(urlOf(former)).port), '127.0.0.1'));
    for (const socket of silent) await once(socket, 'connect');
    t.equal(await answers(), 200);
    t.same(
      silent.map(({ closed }) => closed),
      [false, false],
      'its bound of connections, too',
    );
    for (const socket of silent) socket.destroy();
    await former.close(AbortSignal.abort());
  }
  await listeners.close();
});

t.test('an empty or damaged client_ca_file keeps the previous authorities', async (t) => {
  const directory = t.testdir({ 'ca.pem': CA });
  const file = join(directory, 'ca.pem');
  const { url, clock, listeners } = await listening(t, { ...SERVER, client_ca_file: file });
  const pem = CA.toString();
  let failures = 0;
  for (const damaged of [
    '',
    'nonsense',
    pem.slice(0, -10),
    pem.replace(/MII/, '!II'),
    pem + pem.slice(0, 99),
  ]) {
    writeFileSync(file, damaged);
    await until(() => {
      clock.advance(10_000);
      const outcome = { outcome: 'failure' };
      return (listeners.metrics.value('tracectl_tls_reloads_total', outcome) ?? 0) > failures;
    });
    failures = listeners.metrics.value('tracectl_tls_reloads_total', { outcome: 'failure' }) ?? 0;
    t.equal((await get(url, OWN)).status, 200, 'the old authority is still trusted');
    await t.rejects(get(url), REFUSED, 'a certificate is still required');
    const parsed = serverTls().safeParse({ ...SERVER, client_ca_file: file });
    t.match(parsed.error?.issues, [{ path: ['client_ca_file'], message: /^cannot be used: / }]);
  }
  const absent = serverTls().safeParse({ ...SERVER, client_ca_file: join(directory, 'none.pem') });
  t.ok(absent.success, 'a file of another machine');
});

t.test('TLS 1.2 has no suite in CBC mode unless cipher_suites names it', async (t) => {
  const cbc = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA' } as const;
  const gcm = { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-GCM-SHA256' } as const;
  const usual = await listening(t, SERVER);
  t.equal((await get(usual.url, gcm)).status, 200);
  await t.rejects(get(usual.url, cbc), { message: /handshake failure/i });
  const old = await listening(t, {
    ...SERVER,
    cipher_suites: ['TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA'],
  });
  t.equal((await get(old.url, cbc)).status, 200);
  await t.rejects(get(old.url, gcm), { message: /handshake failure/i });
  t.equal((await get(old.url, { minVersion: 'TLSv1.3' })).status, 200);
  t.notOk(serverTls().safeParse({ ...SERVER, cipher_suites: ['NULL-MD5'] }).success);
});

t.test('the order of cipher_suites precedes that of the client', async (t) => {
  const [aes128, aes256] = ['ECDHE-ECDSA-AES128-GCM-SHA256', 'ECDHE-ECDSA-AES256-GCM-SHA384'];
  const { url } = await listening(t, {
    ...SERVER,
    cipher_suites: [
      'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384',
      'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256',
    ],
  });
  const wanted = { maxVersion: 'TLSv1.2', ciphers: `${aes128}:${aes256}`, ca: CA } as const;
  const socket = connectTls({ host: '127.0.0.1', port: portOf(url), ...wanted });
  await once(socket, 'secureConnect');
  t.equal(socket.getCipher().name, aes256);
  socket.destroy();
});

t.test('names the file that cannot be used', async (t) => {
  const parts = {
    ...{ clock: fakeClock(), logger: recordingLogger(), metrics: recordingMetrics() },
    ...{ endpoint: 'x', handshakeTimeout: 1, protocols: ['http/1.1'] as const },
  };
  const open = (tls: object) => openTls(serverTls().parse(tls), parts);
  const none = open({ ...SERVER, cert_file: '/nowhere/tls.pem' });
  await t.rejects(none, /\/nowhere\/tls\.pem cannot be read: ENOENT/);
  // The key changes after the configuration was checked.
  const key_file = join(t.testdir({ 'own.key': readFileSync(SERVER.key_file) }), 'own.key');
  const changed = serverTls().parse({ ...SERVER, key_file });
  copyFileSync(fixture('client.key'), key_file);
  const mixed = openTls(changed, parts);
  await t.rejects(mixed, /server\.pem cannot be used with its key: .*mismatch/i);
  const given = await open({
    cert_pem: readFileSync(SERVER.cert_file, 'utf8'),
    key_pem: readFileSync(SERVER.key_file, 'utf8'),
  });
  given.close();
  const problems = (tls: object) =>
    serverTls()
      .safeParse(tls)
      .error?.issues.map(({ message }) => message) ?? [];
  t.same(problems({ cert_file: 'a' }), ['needs key_file (or key_pem)']);
  t.same(problems({ ...SERVER, cert_pem: 'a' }), ['takes cert_file or cert_pem, not both']);
  t.same(problems({ ...SERVER, min_version: '1.3', max_version: '1.2' }), [
    'is older than min_version',
  ]);
});

t.test('a check of the configuration refuses a pair of files that cannot serve', (t) => {
  const empty = join(t.testdir({ 'empty.key': '' }), 'empty.key');
  const problems = (tls: object) =>
    serverTls()
      .safeParse({ ...SERVER, ...tls })
      .error?.issues.map(({ path, message }) => [...path, message].join(' '));
  t.same(problems({ cert_file: fixture('server.key') }), [
    'cert_file cannot be used: it does not begin with a sound certificate',
  ]);
  t.same(problems({ key_file: empty }), [
    'key_file cannot be used: it has no private key that can be read without a passphrase',
  ]);
  t.same(problems({ key_file: fixture('client.key') }), [
    'key_file cannot be used: it is the key of another certificate',
  ]);
  const key_pem = readFileSync(fixture('client.key'), 'utf8');
  t.same(problems({ key_file: undefined, key_pem }), [
    'key_pem cannot be used: it is the key of another certificate',
  ]);
  t.same(problems({}), undefined);
  t.same(problems({ key_file: '/nowhere/tls.key' }), undefined, 'a file of another machine');
  t.end();
});

t.test('handles reads one at a time, and cuts a client that does not read', async (t) => {
  const listeners = testListeners();
  const settings = { ...USUAL_LIMITS, writeTimeout: 300, tls: serverTls().parse(SERVER) };
  const listener = await listeners.bind('127.0.0.1:0', settings);
  let running = 0;
  let most = 0;
  listener.route({
    ...hello,
    oneAtATime: true,
    async handler(exchange) {
      most = Math.max(most, ++running);
      await new Promise(setImmediate);
      running--;
      hello.handler(exchange);
    },
  });
  const cut = Promise.withResolvers<boolean>();
  listener.route({
    ...hello,
    path: '/large',
    handler(exchange) {
      const { response } = exchange;
      response.once('close', () => cut.resolve(!response.writableFinished));
      answer(exchange, { status: 200, contentType: 'text/plain', body: 'x'.repeat(32_000_000) });
    },
  });
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  const dialled = async (): Promise<TLSSocket> => {
    const { port } = new URL(urlOf(listener));
    const socket = connectTls({ host: '127.0.0.1', port: Number(port), ca: CA });
    socket.on('error', () => undefined);
    await once(socket, 'secureConnect');
    return socket;
  };
  const reader = await dialled();
  let text = '';
  reader.on('data', (chunk) => (text += chunk));
  const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: t\r\n${more}\r\n`;
  reader.write(get('/hello').repeat(60) + get('/hello', 'Connection: close\r\n'));
  await once(reader, 'close');
  t.equal(text.split('HTTP/1.1 200').length - 1, 61);
  t.equal(most, 1);
  const deaf = await dialled();
  deaf.pause();
  deaf.write(get('/large'));
  t.equal(await cut.promise, true);
  deaf.destroy();
});
