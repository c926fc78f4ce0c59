import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect, Socket } from 'node:net';
import t, { type Test } from 'tap';
import { MAX_WAITING, ProxyGate } from '../../../src/net/proxy-gate.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';
import { dial } from '../../helper/wire.ts';

const GET = 'GET / HTTP/1.1\r\nHost: t\r\n\r\n';
const HEADER = 'PROXY TCP4 198.51.100.1 203.0.113.7 35646 443\r\n';

/** An HTTP server behind a gate; it answers with the client of the connection. */
async function serving(t: Test, trusted = ['127.0.0.1']) {
  const clock = fakeClock();
  const logger = recordingLogger();
  const gate = new ProxyGate(
    { clock, logger, endpoint: 'test' },
    { trustedProxies: trusted, proxyProtocol: true },
  );
  const server = createServer((request, response) => {
    response.end(gate.clientOf(request.socket));
  });
  gate.guard(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    gate.close();
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, clock, logger, gate };
}

t.test('serves a connection behind its header, however it arrives', async (t) => {
  const { url, logger } = await serving(t);
  for (const pieces of [
    [HEADER + GET],
    [HEADER, GET],
    [...HEADER, GET],
    [`${HEADER}GET /`, GET.slice(5)],
  ]) {
    const wire = await dial(url);
    wire.socket.setNoDelay(true);
    for (const piece of pieces) {
      wire.send(piece);
      await new Promise((resolve) => setImmediate(resolve));
    }
    t.equal((await wire.answer()).body.toString(), '198.51.100.1');
    wire.send(GET);
    t.equal((await wire.answer()).body.toString(), '198.51.100.1', 'the next request too');
    wire.close();
  }
  const own = await dial(url);
  own.send(`PROXY UNKNOWN\r\n${GET}`);
  t.equal((await own.answer()).body.toString(), '127.0.0.1', 'a connection of the proxy itself');
  t.same(logger.lines, []);
});

t.test('reads no header from another peer', async (t) => {
  const { url, logger } = await serving(t, ['127.0.0.2']);
  const plain = await dial(url);
  plain.send(GET);
  t.equal((await plain.answer()).body.toString(), '127.0.0.1');
  const forged = await dial(url);
  forged.send(HEADER + GET);
  t.equal((await forged.answer()).status, 400);
  t.same(logger.lines, []);
});

t.test('closes a connection without a valid header, and logs one line', async (t) => {
  const { url, clock, logger } = await serving(t);
  const refused = async (bytes: string) => {
    const wire = await dial(url);
    wire.send(bytes);
    await wire.ended();
  };
  for (const bytes of [GET, 'PROXY TCP4 x\r\n', 'P\r\n']) await refused(bytes);
  t.match(logger.lines, [
    {
      level: 'warn',
      fields: { endpoint: 'test', address: '127.0.0.1', reason: /missing or malformed/ },
    },
  ]);
  t.equal(logger.lines.length, 1);
  clock.advance(9_999);
  await refused(GET);
  t.equal(logger.lines.length, 1);
  clock.advance(1);
  await refused(GET);
  t.equal(logger.lines.length, 2);
  t.match(logger.lines[1], { fields: { suppressed: 3 } });
});

t.test('closes a connection whose header takes longer than 2 s', async (t) => {
  const { url, clock, logger } = await serving(t);
  const late = await dial(url);
  late.send(HEADER.slice(0, 10));
  const { port } = new URL(url);
  const silent = connect(Number(port), '127.0.0.1');
  await once(silent, 'connect');
  await until(() => clock.pending() === 2);
  clock.advance(1_999);
  const inTime = await dial(url);
  inTime.send(HEADER + GET);
  t.equal((await inTime.answer()).status, 200);
  t.same(logger.lines, []);
  clock.advance(1);
  await Promise.all([late.ended(), once(silent, 'close')]);
  t.match(logger.lines, [{ fields: { reason: /too long/ } }]);
  t.equal(clock.pending(), 0);
});

t.test('logs nothing for a connection without a byte', async (t) => {
  const { url, clock, logger } = await serving(t);
  const check = await dial(url);
  check.socket.end();
  await check.ended();
  const half = await dial(url);
  half.send(HEADER.slice(0, 10));
  half.socket.end();
  await half.ended();
  t.match(logger.lines, [{ fields: { reason: /incomplete/ } }]);
  t.equal(clock.pending(), 0);
});

t.test('lets a bounded number of connections wait', async (t) => {
  const logger = recordingLogger();
  const gate = new ProxyGate(
    { clock: fakeClock(), logger, endpoint: 'test' },
    { trustedProxies: ['127.0.0.1'], proxyProtocol: true },
  );
  const sockets = Array.from({ length: MAX_WAITING + 1 }, (_, i) =>
    Object.defineProperties(new Socket(), {
      remoteAddress: { value: '127.0.0.1' },
      remotePort: { value: i },
    }),
  );
  for (const socket of sockets) gate.accept(socket, () => {});
  t.equal(sockets.filter(({ destroyed }) => destroyed).length, 1);
  t.ok(sockets.at(-1)?.destroyed);
  t.match(logger.lines, [{ fields: { reason: 'too many connections wait' } }]);
  gate.close();
  t.ok(sockets.every(({ destroyed }) => destroyed));
});

t.test('reads headers from the settings of the moment', async (t) => {
  const { url, gate } = await serving(t);
  gate.use({ trustedProxies: ['127.0.0.1'], proxyProtocol: false });
  const answered = new Promise<string>((resolve, reject) => {
    const sent = request(url, { agent: false }, (response) => {
      response.setEncoding('utf8').once('data', resolve);
    });
    sent.on('error', reject).end();
  });
  t.equal(await answered, '127.0.0.1');
});
