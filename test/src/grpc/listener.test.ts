import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { constants } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import { credentials } from '@grpc/grpc-js';
import type { Test } from 'tap';
import t from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import { ANSWER_MS, LINGER_MS } from '../../../src/grpc/answered-stream.ts';
import type { GrpcLimits } from '../../../src/grpc/config.ts';
import type { GrpcListener, GrpcListeners } from '../../../src/grpc/listener.ts';
import { createGrpcListeners } from '../../../src/grpc/listener.ts';
import type { ByteReservation } from '../../../src/http/bytes-in-flight.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { fakeClock } from '../../helper/clock.ts';
import { bareClient, framed, grpcClient } from '../../helper/grpc.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { http2Frame, literalField } from '../../helper/http2-frame.ts';
import { recordingLogger, recordingMetrics } from '../../helper/settings.ts';
import { advanceUntil, until } from '../../helper/until.ts';

const PATH = '/test.Service/Say';
const HOUR = 3_600_000;
const USUAL: GrpcLimits = {
  maxConnections: 100,
  maxConcurrentStreams: 100,
  readTimeout: 60_000,
  maxConnectionsPerAddress: 100,
  maxStreams: 100,
  maxStreamsPerAddress: 100,
  bodyRate: { bytesPerSecond: 16_384, period: 5_000 },
  maxConnectionIdle: HOUR,
  maxConnectionAge: HOUR,
  maxConnectionAgeGrace: HOUR,
  keepaliveTime: HOUR,
  keepaliveTimeout: HOUR,
};

function listenersFor(t: Test, clock = systemClock) {
  const metrics = recordingMetrics();
  const listeners = createGrpcListeners({ logger: recordingLogger(), metrics, clock });
  t.teardown(() => listeners.close());
  return { listeners, metrics };
}

/** A listener whose method answers every call with its name. */
async function opened(
  t: Test,
  listeners: GrpcListeners,
  endpoint: string,
  name: string,
  more: { limits?: Partial<GrpcLimits>; until?: Promise<void>; tls?: TlsServer } = {},
): Promise<GrpcListener> {
  const listener = await listeners.bind(endpoint, {
    limits: { ...USUAL, ...more.limits },
    ...(more.tls === undefined ? {} : { tls: more.tls }),
    methods: [
      {
        path: PATH,
        maxBytes: 100,
        async handler(incoming) {
          await more.until;
          incoming.answer({ status: 200, contentType: '', body: name });
        },
      },
    ],
  });
  t.teardown(() => listener.close(AbortSignal.abort()));
  await listener.open();
  return listener;
}

function urlOf(listener: GrpcListener): string {
  return listener.url() ?? '';
}

/** The number of a free port. */
async function freeEndpoint(): Promise<string> {
  const probe = createServer();
  probe.listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return `127.0.0.1:${port}`;
}

function dial(url: string): Socket {
  const { hostname, port } = new URL(url);
  return connect(Number(port), hostname).on('error', () => {});
}

t.test('lists the methods that it serves, and none when it is closed', async (t) => {
  const { listeners, metrics } = listenersFor(t);
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a');
  const url = urlOf(listener);
  t.strictSame(listeners.served(), [{ url, routes: ['gRPC test.Service/Say'] }]);
  const client = grpcClient(t, url);
  t.equal(String((await client.call(Buffer.alloc(0), { path: PATH })).message), 'a');
  const endpoint = '127.0.0.1:0';
  t.equal(metrics.value('tracectl_grpc_connections', { endpoint }), 1);
  await listener.close(NO_DEADLINE);
  t.strictSame(listeners.served(), []);
  t.equal(listener.url(), undefined);
  t.equal((await client.call(Buffer.alloc(0), { path: PATH })).code, 14);
  await listener.close(NO_DEADLINE);
});

t.test('hands a port over to the next graph without refusing a call', async (t) => {
  const { listeners } = listenersFor(t);
  const endpoint = await freeEndpoint();
  const first = await opened(t, listeners, endpoint, 'first');
  const clients = [0, 1, 2].map(() => grpcClient(t, urlOf(first), { 'grpc.enable_retries': 1 }));
  const seen: string[] = [];
  const codes = new Set<number>();
  let isOver = false;
  const calling = clients.map(async ({ call }) => {
    while (!isOver) {
      const { code, message } = await call(Buffer.alloc(10), { path: PATH });
      codes.add(code);
      seen.push(String(message));
    }
  });
  const reached = async (name: string): Promise<void> => {
    const from = seen.length;
    await until(() => seen.slice(from).includes(name));
  };
  await reached('first');
  const second = await opened(t, listeners.nextGraph(), endpoint, 'second');
  await first.close(NO_DEADLINE);
  await reached('second');
  t.notOk(seen.slice(seen.indexOf('second')).slice(10).includes('first'));
  t.equal(urlOf(second), `http://${endpoint}`);
  isOver = true;
  await Promise.all(calling);
  t.strictSame([...codes], [0]);
  t.equal(listeners.served().length, 1);
});

t.test('leaves the port to the running graph when the next one cannot start', async (t) => {
  const { listeners } = listenersFor(t);
  const endpoint = await freeEndpoint();
  const first = await opened(t, listeners, endpoint, 'first');
  const second = await opened(t, listeners.nextGraph(), endpoint, 'second');
  await second.close(NO_DEADLINE);
  const { message } = await grpcClient(t, urlOf(first)).call(Buffer.alloc(0), { path: PATH });
  t.equal(String(message), 'first');
});

t.test('finishes a call of the former graph while the next one serves', async (t) => {
  const { listeners } = listenersFor(t);
  const endpoint = await freeEndpoint();
  const finish = Promise.withResolvers<void>();
  const first = await opened(t, listeners, endpoint, 'first', { until: finish.promise });
  const slow = bareClient(t, urlOf(first));
  const call = slow.call([], PATH);
  call.stream.end(framed(Buffer.alloc(0)));
  await new Promise((resolve) => slow.session.ping(resolve));
  await opened(t, listeners.nextGraph(), endpoint, 'second');
  const closed = first.close(NO_DEADLINE);
  const other = grpcClient(t, urlOf(first));
  t.equal(String((await other.call(Buffer.alloc(0), { path: PATH })).message), 'second');
  finish.resolve();
  t.match(await call.end, { 'grpc-status': '0' });
  await closed;
});

t.test('refuses a second receiver of a graph on one port', async (t) => {
  const { listeners } = listenersFor(t);
  const endpoint = await freeEndpoint();
  await opened(t, listeners, endpoint, 'a');
  await t.rejects(opened(t, listeners, endpoint, 'b'), /in use by another receiver/);
});

t.test('reports an address that cannot be bound with a clear sentence', async (t) => {
  const { listeners } = listenersFor(t);
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  t.teardown(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  await t.rejects(opened(t, listeners, `127.0.0.1:${port}`, 'a'), {
    message: `cannot listen on 127.0.0.1:${port}: another program listens there`,
  });
  await t.rejects(opened(t, listeners, 'no-such-host.invalid:4317', 'a'), /host name is unknown/);
});

for (const bounds of [{ maxConnections: 2 }, { maxConnectionsPerAddress: 2 }]) {
  t.test(`beyond ${Object.keys(bounds)}, replaces an idle connection or closes`, async (t) => {
    const { listeners } = listenersFor(t);
    const until = Promise.withResolvers<void>();
    const listener = await opened(t, listeners, '127.0.0.1:0', 'a', {
      limits: bounds,
      until: until.promise,
    });
    const first = bareClient(t, urlOf(listener));
    const held = first.call([], PATH);
    held.stream.end(framed(Buffer.alloc(0)));
    await new Promise((resolve) => first.session.ping(resolve));
    const silent = dial(urlOf(listener));
    await once(silent, 'data');
    const second = bareClient(t, urlOf(listener));
    await once(silent, 'close');
    const other = second.call([], PATH);
    other.stream.end(framed(Buffer.alloc(0)));
    await new Promise((resolve) => second.session.ping(resolve));
    await once(dial(urlOf(listener)), 'close');
    until.resolve();
    t.match(await held.end, { 'grpc-status': '0' });
    t.match(await other.end, { 'grpc-status': '0' });
  });
}

for (const bounds of [{ maxStreams: 2 }, { maxStreamsPerAddress: 2 }]) {
  t.test(`answers calls beyond ${Object.keys(bounds)} with UNAVAILABLE`, async (t) => {
    const { listeners } = listenersFor(t);
    const until = Promise.withResolvers<void>();
    const limits = bounds;
    const more = { limits, until: until.promise };
    const listener = await opened(t, listeners, '127.0.0.1:0', 'a', more);
    const clients = [bareClient(t, urlOf(listener)), bareClient(t, urlOf(listener))];
    const held = clients.map(({ call }) => call([], PATH));
    for (const { stream } of held) stream.end(framed(Buffer.alloc(0)));
    await Promise.all(clients.map(({ session }) => new Promise((done) => session.ping(done))));
    const client = grpcClient(t, urlOf(listener));
    const call = () => client.call(Buffer.alloc(0), { path: PATH });
    t.match(await call(), { code: 14, details: /Too many calls/, retryAfterMs: 1000 });
    until.resolve();
    for (const { end } of held) t.match(await end, { 'grpc-status': '0' });
    t.equal((await call()).code, 0);
  });
}

t.test('cuts a connection whose calls are all beyond the bound, after ten of them', async (t) => {
  const { listeners } = listenersFor(t);
  const until = Promise.withResolvers<void>();
  const more = { limits: { maxStreamsPerAddress: 1 }, until: until.promise };
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a', more);
  const busy = bareClient(t, urlOf(listener));
  const held = busy.call([], PATH);
  held.stream.end(framed(Buffer.alloc(0)));
  await new Promise((done) => busy.session.ping(done));
  const flood = bareClient(t, urlOf(listener));
  const closed = new Promise((done) => flood.session.once('close', done));
  const goaway = new Promise((done) => flood.session.once('goaway', done));
  flood.session.on('error', () => {});
  for (let i = 0; i < 10; i++) {
    const refused = flood.call([], PATH);
    refused.stream.end(framed(Buffer.alloc(0)));
    t.match(await refused.end, { 'grpc-status': '14' });
  }
  flood.call([], PATH);
  t.equal(await goaway, constants.NGHTTP2_ENHANCE_YOUR_CALM);
  await closed;
  until.resolve();
  t.match(await held.end, { 'grpc-status': '0' }, 'a connection with a call in progress stays');
});

for (const [places, bound] of [
  [5, 100],
  [60, 120],
] as const) {
  t.test(
    `cuts a connection with ${places} places that resets more than ${bound} calls at once`,
    async (t) => {
      const { listeners } = listenersFor(t);
      const limits = { maxConcurrentStreams: places };
      const listener = await opened(t, listeners, '127.0.0.1:0', 'a', { limits });
      const resets = (count: number) => {
        const calls = Array.from({ length: count }, (_, i) => [
          http2Frame(1, 4, 2 * i + 1, HEADERS),
          http2Frame(3, 0, 2 * i + 1, Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL])),
        ]);
        const start = [Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), http2Frame(4, 0, 0)];
        const last = http2Frame(6, 0, 0, Buffer.from('answered'));
        return Buffer.concat([...start, ...calls.flat(), last]);
      };
      const some = dial(urlOf(listener));
      some.write(resets(bound));
      for (let read = ''; !read.includes('answered'); ) read += (await once(some, 'data'))[0];
      const many = dial(urlOf(listener));
      many.resume().write(resets(bound + 400));
      await once(many, 'close');
      t.notOk(some.destroyed, 'a client may cancel all its calls');
      some.destroy();
    },
  );
}

/** The head of a call: a POST over http, and literal fields. */
const HEADERS = Buffer.concat([
  Buffer.from([0x83, 0x86]),
  literalField(':path', PATH),
  literalField(':authority', 'test'),
  literalField('content-type', 'application/grpc'),
]);

t.test('closes a connection without HTTP/2 after 10 s', async (t) => {
  const clock = fakeClock();
  const { listeners } = listenersFor(t, clock);
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a');
  const speaks = grpcClient(t, urlOf(listener));
  t.equal((await speaks.call(Buffer.alloc(0), { path: PATH })).code, 0);
  const silent = dial(urlOf(listener));
  await once(silent, 'data');
  clock.advance(10_000);
  await once(silent, 'close');
  t.equal((await speaks.call(Buffer.alloc(0), { path: PATH })).code, 0, 'others stay');
});

/** Whether a call finds a place, on a listener for one call at a time. */
async function findsPlace(t: Test, listener: GrpcListener): Promise<boolean> {
  const client = grpcClient(t, urlOf(listener));
  return (await client.call(Buffer.alloc(0), { path: PATH })).code === 0;
}

t.test('resets a call whose client does not take its answer in 30 s', async (t) => {
  const clock = fakeClock();
  const { listeners } = listenersFor(t, clock);
  const limits = { maxStreams: 1 };
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a', { limits });
  const deaf = bareClient(t, urlOf(listener));
  deaf.session.settings({ initialWindowSize: 0 });
  const { stream, end } = deaf.call([], PATH);
  stream.end(framed(Buffer.alloc(0)));
  await once(stream, 'response');
  t.notOk(await findsPlace(t, listener), 'the call has its place');
  clock.advance(ANSWER_MS - 1);
  t.notOk(await findsPlace(t, listener));
  clock.advance(1);
  await end;
  t.equal(stream.rstCode, constants.NGHTTP2_CANCEL);
  t.ok(await findsPlace(t, listener));
  t.notOk(deaf.session.closed, 'its connection goes on');
});

for (const timeout of ['1n', 'soon']) {
  t.test(`resets a call with the timeout ${timeout} that goes on behind its status`, async (t) => {
    const clock = fakeClock();
    const { listeners } = listenersFor(t, clock);
    const limits = { maxStreams: 1 };
    const handled = Promise.withResolvers<void>();
    const more = { limits, until: handled.promise };
    const listener = await opened(t, listeners, '127.0.0.1:0', 'a', more);
    const { stream, end } = bareClient(t, urlOf(listener)).call(['grpc-timeout', timeout], PATH);
    await once(stream, 'response');
    await advanceUntil(clock, LINGER_MS, () => stream.closed);
    t.match(await end, { 'grpc-status': timeout === 'soon' ? '13' : '4' });
    handled.resolve();
    t.ok(await findsPlace(t, listener));
  });
}

t.test('keeps a deadline that is later than timers reach', async (t) => {
  const { listeners } = listenersFor(t);
  const handled = Promise.withResolvers<void>();
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a', { until: handled.promise });
  const client = bareClient(t, urlOf(listener));
  const call = (timeout: string) => {
    const begun = client.call(['grpc-timeout', timeout], PATH);
    begun.stream.end(framed(Buffer.alloc(0)));
    return begun;
  };
  const calls = ['596H', '597H', '35792M', '2147484S'].map(call);
  // Its timer is the last one of those that end at once.
  t.match(await call('1m').end, { 'grpc-status': '4' });
  handled.resolve();
  for (const { end } of calls) t.match(await end, { 'grpc-status': '0' });
});

t.test('asks an idle connection to close if configured', async (t) => {
  const { listeners } = listenersFor(t);
  const limits = { maxConnectionIdle: 30, keepaliveTime: 10 };
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a', { limits });
  const { session } = bareClient(t, urlOf(listener));
  await once(session, 'goaway');
  t.pass('without an error, so a client reconnects');
});

t.test('stops without waiting for connections without a call', async (t) => {
  const { listeners } = listenersFor(t);
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a');
  const idle = grpcClient(t, urlOf(listener));
  t.equal((await idle.call(Buffer.alloc(0), { path: PATH })).code, 0);
  const silent = dial(urlOf(listener));
  await once(silent, 'data');
  const deaf = dial(urlOf(listener));
  deaf.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  await once(deaf, 'data');
  await listener.close(NO_DEADLINE);
  t.pass('nor for connections that never began HTTP/2');
  silent.destroy();
  deaf.destroy();
});

function pem(name: string): Buffer {
  return readFileSync(new URL(`../../fixtures/tls/${name}`, import.meta.url));
}

/** The common name of a port's certificate. */
async function shown(url: string): Promise<unknown> {
  const ours = { ca: pem('ca.pem'), cert: pem('client.pem'), key: pem('client.key') };
  const { hostname, port } = new URL(url);
  const socket = connectTls({ host: hostname, port: Number(port), ALPNProtocols: ['h2'], ...ours });
  socket.on('error', () => {});
  await once(socket, 'secureConnect');
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return subject.CN;
}

t.test('serves TLS, with client certificates if configured', async (t) => {
  const { listeners } = listenersFor(t);
  const tls = createTlsServer({
    ...{ cert: pem('server.pem'), key: pem('server.key'), ca: pem('ca.pem') },
    ...{ requestCert: true, rejectUnauthorized: true, ALPNProtocols: ['h2'] },
  });
  const listener = await opened(t, listeners, '127.0.0.1:0', 'secured', { tls });
  const url = urlOf(listener);
  t.match(url, /^https:/);
  const local = { 'grpc.ssl_target_name_override': 'localhost' };
  const ask = (creds: ReturnType<typeof credentials.createInsecure>) =>
    grpcClient(t, url, local, creds).call(Buffer.alloc(0), { path: PATH, deadlineMs: 5000 });
  const known = credentials.createSsl(pem('ca.pem'), pem('client.key'), pem('client.pem'));
  t.equal(String((await ask(known)).message), 'secured');
  t.equal((await ask(credentials.createSsl(pem('ca.pem')))).code, 14, 'no client certificate');
  t.equal((await ask(credentials.createInsecure())).code, 14, 'no TLS');
  t.not(await shown(url), 'client');
  tls.setSecureContext({ cert: pem('client.pem'), key: pem('client.key'), ca: pem('ca.pem') });
  t.equal(await shown(url), 'client', 'the replaced certificate');
  t.equal((await ask(known)).code, 0);
  await listener.close(NO_DEADLINE);
});

const PREFACE = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  http2Frame(4, 0, 0),
]);

/** A flood of a client in one write. `frames` are those of one stream. */
function floodOf(count: number, frames: (stream: number) => readonly Buffer[]): Buffer {
  const all = Array.from({ length: count }, (_, i) => frames(2 * i + 1));
  return Buffer.concat([PREFACE, ...all.flat(), http2Frame(6, 0, 0, Buffer.from('answered'))]);
}

/** The head of a stream of another method of HTTP, path or content type. */
function headOf(method: string, path: string, contentType: string) {
  const fields = { ':method': method, ':scheme': 'http', ':path': path, ':authority': 'test' };
  return Buffer.concat(
    Object.entries({ ...fields, 'content-type': contentType }).map(([name, value]) =>
      literalField(name, value),
    ),
  );
}

const CALL = headOf('POST', PATH, 'application/grpc');

/** Resolves when the server answered two pings: the first one, behind what was written, before it looked at the streams. */
async function goesOn(socket: Socket): Promise<void> {
  let read = '';
  socket.on('data', (chunk) => {
    read += chunk;
  });
  await until(() => read.includes('answered'));
  socket.write(http2Frame(6, 0, 0, Buffer.from('goes on.')));
  await until(() => read.includes('goes on.'));
}

for (const [name, head] of [
  ['of another method of HTTP', headOf('GET', PATH, 'application/grpc')],
  ['of another path', headOf('POST', '/test.Service/Unknown', 'application/grpc')],
  ['without the content type of gRPC', headOf('POST', PATH, 'text/plain')],
] as const) {
  t.test(`cuts a connection after ten streams ${name}`, async (t) => {
    const { listeners } = listenersFor(t, fakeClock());
    const listener = await opened(t, listeners, '127.0.0.1:0', 'a');
    const flood = (count: number) => floodOf(count, (stream) => [http2Frame(1, 5, stream, head)]);
    const [some, many] = [dial(urlOf(listener)), dial(urlOf(listener))];
    some.write(flood(10));
    await goesOn(some);
    many.resume().write(flood(11));
    await once(many, 'close');
    t.notOk(some.destroyed);
    some.destroy();
  });
}

t.test('answers streams that are no call', async (t) => {
  const { listeners } = listenersFor(t);
  const { call } = bareClient(t, urlOf(await opened(t, listeners, '127.0.0.1:0', 'a')));
  const unknown = call([], '/test.Service/%C3');
  t.match(await unknown.end, {
    ':status': '200',
    'content-type': 'application/grpc+proto',
    'grpc-status': '12',
    'grpc-message': 'The server does not implement the method /test.Service/%25C3',
  });
  t.match(await call(['content-type', 'text/plain'], PATH).end, { ':status': '415' });
});

t.test('answers a call of a path with other bytes than those of ASCII', async (t) => {
  const { listeners } = listenersFor(t);
  const socket = dial(urlOf(await opened(t, listeners, '127.0.0.1:0', 'a')));
  const head = headOf('POST', '/test.Service/\u00e9', 'application/grpc');
  socket.write(floodOf(1, (stream) => [http2Frame(1, 5, stream, head)]));
  await goesOn(socket);
  t.notOk(socket.destroyed);
  socket.destroy();
});

t.test('cuts a connection after 200 frames against the protocol', async (t) => {
  const { listeners } = listenersFor(t);
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a');
  const trailers = Buffer.concat([literalField(':path', PATH)]);
  const flood = (count: number) =>
    floodOf(count, (stream) => [
      http2Frame(1, 4, stream, CALL),
      http2Frame(1, 5, stream, trailers),
    ]);
  const [some, many] = [dial(urlOf(listener)), dial(urlOf(listener))];
  some.write(flood(200));
  await goesOn(some);
  many.resume().write(flood(202));
  await once(many, 'close');
  t.notOk(some.destroyed);
  some.destroy();
});

t.test('begins a call in the next turn behind hundreds that were reset', async (t) => {
  const { listeners } = listenersFor(t);
  let turns = 0;
  const begun: number[] = [];
  const count = (): void => {
    turns++;
    counting = setImmediate(count);
  };
  let counting = setImmediate(count);
  t.teardown(() => clearImmediate(counting));
  const listener = await listeners.bind('127.0.0.1:0', {
    limits: { ...USUAL, maxConcurrentStreams: 400, maxStreams: 1_000, maxStreamsPerAddress: 1_000 },
    methods: [
      {
        path: PATH,
        maxBytes: 100,
        async handler(incoming) {
          begun.push(turns);
          incoming.answer({ status: 200, contentType: '', body: '' });
        },
      },
    ],
  });
  t.teardown(() => listener.close(AbortSignal.abort()));
  await listener.open();
  const socket = dial(urlOf(listener));
  await once(socket, 'data');
  const last = 2 * 450 - 1;
  socket.write(
    floodOf(450, (stream) => [
      http2Frame(1, 4, stream, CALL),
      stream === last
        ? http2Frame(0, 1, stream, Buffer.alloc(5))
        : http2Frame(3, 0, stream, Buffer.from([0, 0, 0, constants.NGHTTP2_CANCEL])),
    ]),
  );
  await until(() => begun.length > 16);
  t.equal(begun.length, 17, 'the calls of the first turn began before their reset arrived');
  t.ok((begun[16] ?? 0) - (begun[0] ?? 0) < 10, 'its turn does not wait for 28 groups of 16');
  socket.destroy();
});

t.test('begins a call soon beside hundreds of another connection', async (t) => {
  const { listeners } = listenersFor(t);
  const begun: string[] = [];
  const listener = await listeners.bind('127.0.0.1:0', {
    limits: { ...USUAL, maxConcurrentStreams: 400, maxStreams: 1_000, maxStreamsPerAddress: 1_000 },
    methods: [
      {
        path: PATH,
        maxBytes: 100,
        async handler(incoming) {
          begun.push(incoming.head.headers.get('name')?.[0] ?? '');
          incoming.answer({ status: 200, contentType: '', body: '' });
        },
      },
    ],
  });
  t.teardown(() => listener.close(AbortSignal.abort()));
  await listener.open();
  const [many, other] = [dial(urlOf(listener)), dial(urlOf(listener))];
  const calls = (count: number, name: string) =>
    floodOf(count, (stream) => [
      http2Frame(1, 4, stream, Buffer.concat([CALL, literalField('name', name)])),
      http2Frame(0, 1, stream, Buffer.alloc(5)),
    ]);
  await Promise.all([once(many, 'data'), once(other, 'data')]);
  many.write(calls(400, 'many'));
  other.write(calls(1, 'other'));
  // All of them have arrived when the event loop goes on.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
  await until(() => begun.length === 401);
  t.ok(begun.indexOf('other') < 64, `${begun.indexOf('other')} began before it`);
  for (const socket of [many, other]) socket.destroy();
});

t.test('cuts a connection with a flood of window updates, and its network waits', async (t) => {
  const { listeners } = listenersFor(t);
  const listener = await opened(t, listeners, '127.0.0.1:0', 'a');
  const [flood, other] = [dial(urlOf(listener)), dial(urlOf(listener))];
  other.write(floodOf(0, () => []));
  await goesOn(other);
  const update = http2Frame(8, 0, 0, Buffer.from([0, 0, 0, 1]));
  flood.resume().write(Buffer.concat([PREFACE, ...Array<Buffer>(40_000).fill(update)]));
  await once(flood, 'close');
  t.notOk(other.destroyed);
  const next = dial(urlOf(listener));
  next.write(floodOf(0, () => []));
  await goesOn(next);
  t.pass('the next connection is served after the wait');
  for (const socket of [other, next]) socket.destroy();
});

const UNBOUNDED: ByteReservation = {
  held: 0,
  most: Number.MAX_SAFE_INTEGER,
  expect: () => {},
  grow: () => {},
  obtain: () => undefined,
  yields: () => () => {},
  release: () => {},
};

t.test('takes large messages over TLS, and hundreds of small ones', async (t) => {
  const { listeners } = listenersFor(t);
  const tls = createTlsServer({
    ...{ cert: pem('server.pem'), key: pem('server.key'), ALPNProtocols: ['h2'] },
  });
  const listener = await listeners.bind('127.0.0.1:0', {
    limits: USUAL,
    tls,
    methods: [
      {
        path: PATH,
        maxBytes: 30_000_000,
        async handler(incoming) {
          const { body } = await incoming.read(UNBOUNDED, 'identity');
          incoming.answer({ status: 200, contentType: '', body: String(body.length) });
        },
      },
    ],
  });
  t.teardown(() => listener.close(AbortSignal.abort()));
  await listener.open();
  const { call } = bareClient(t, urlOf(listener), { ca: pem('ca.pem'), servername: 'localhost' });
  for (let i = 0; i < 4; i++) {
    const large = call([], PATH);
    large.stream.end(framed(Buffer.alloc(25_000_000)));
    t.match(await large.end, { 'grpc-status': '0' });
  }
  for (let i = 0; i < 300; i++) {
    const small = call([], PATH);
    small.stream.end(framed(Buffer.alloc(10)));
    t.match(await small.end, { 'grpc-status': '0' });
  }
});

const ONE_LOOPBACK = process.platform === 'darwin' && 'this system has one loopback address';

for (const secure of [false, true]) {
  t.test(
    `unfinished messages give way to another client, ${secure ? 'with' : 'without'} TLS`,
    { skip: ONE_LOOPBACK },
    async (t) => {
      const { listeners } = listenersFor(t);
      const files = { cert: pem('server.pem'), key: pem('server.key'), ALPNProtocols: ['h2'] };
      let reading = 0;
      const listener = await listeners.bind('127.0.0.1:0', {
        limits: { ...USUAL, maxConnections: 2 },
        ...(secure && { tls: createTlsServer(files) }),
        methods: [
          {
            path: PATH,
            maxBytes: 1_000,
            async handler(incoming) {
              try {
                reading++;
                await incoming.read(UNBOUNDED, 'identity');
                incoming.answer({ status: 200, contentType: '', body: 'read' });
              } catch (error) {
                if (error instanceof Refusal) incoming.refuse(error);
              } finally {
                reading--;
              }
            },
          },
        ],
      });
      t.teardown(() => listener.close(AbortSignal.abort()));
      await listener.open();
      const url = urlOf(listener);
      const ca = secure ? { ca: pem('ca.pem'), servername: 'localhost' } : {};
      const slow = [bareClient(t, url, ca), bareClient(t, url, ca)];
      const calls = slow.map(({ call }) => [call([], PATH), call([], PATH)]);
      for (const { stream } of calls.flat()) stream.write(framed(Buffer.alloc(0), 0, 1_000));
      await until(() => reading === 4);
      const { port } = new URL(url);
      const from = { port: Number(port), host: '127.0.0.1', localAddress: '127.0.0.2' };
      const createConnection = () =>
        secure
          ? connectTls({ ...ca, socket: connect(from), ALPNProtocols: ['h2'] })
          : connect(from);
      const other = bareClient(t, url, { createConnection });
      const closed = Promise.race(slow.map(({ session }) => once(session, 'close')));
      const goaway = Promise.race(slow.map(({ session }) => once(session, 'goaway')));
      const whole = other.call([], PATH);
      whole.stream.end(framed(Buffer.alloc(0)));
      t.match(await whole.end, { 'grpc-status': '0' });
      t.equal((await goaway)[0], constants.NGHTTP2_NO_ERROR);
      const [gone = [], kept = []] = calls.sort(
        ([a], [b]) =>
          Number(b?.stream.session?.closed ?? true) - Number(a?.stream.session?.closed ?? true),
      );
      for (const { end } of gone) {
        t.match(await end, { 'grpc-status': '14', 'grpc-message': /more%20than%20its%20share/ });
      }
      await closed;
      t.equal(reading, 2);
      for (const { stream, end } of kept) {
        stream.end(Buffer.alloc(1_000));
        t.match(await end, { 'grpc-status': '0' }, 'the other one goes on');
      }
    },
  );
}
