import { readFileSync } from 'node:fs';
import { createSecureServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { z } from 'zod';
import { clientFields } from '../../../src/otlp-client/config.ts';
import { openTransport, type Transport } from '../../../src/otlp-client/transport.ts';
import { startEarlyServer } from '../../helper/early-server.ts';
import { startOtlpServer } from '../../helper/otlp-server.ts';
import { until } from '../../helper/until.ts';

/** More than the system keeps for a connection whose peer reads nothing. */
const LARGE = 32 * 1024 * 1024;
const file = (name: string) => join(import.meta.dirname, '../../fixtures/tls', name);
const secure = { key: readFileSync(file('server.key')), cert: readFileSync(file('server.pem')) };

async function transportTo(t: Test, endpoint: string, more = {}): Promise<Transport> {
  const config = { endpoint, tls: { ca_file: file('ca.pem') }, ...more };
  const transport = await openTransport(z.object(clientFields).parse(config));
  t.teardown(() => transport.close());
  return transport;
}

t.test('says when the system has all bytes of the requests', async (t) => {
  await t.test('which may be after an early answer', async (t) => {
    const server = await startEarlyServer(t);
    const transport = await transportTo(t, server.url);
    t.equal(transport.isSent(), true, 'nothing was sent');
    const response = await transport.send(Buffer.alloc(LARGE, 1), {}).response;
    t.equal(response.status, 200);
    t.equal(transport.isSent(), false, 'the destination has not read the body');
    server.read();
    await until(() => server.received().length > LARGE);
    await until(() => transport.isSent());
  });

  await t.test('also of a connection that broke', async (t) => {
    const server = await startEarlyServer(t);
    const transport = await transportTo(t, server.url);
    await transport.send(Buffer.alloc(LARGE, 1), {}).response;
    t.equal(transport.isSent(), false);
    server.end();
    await until(() => transport.isSent());
  });

  await t.test('over TLS', async (t) => {
    const server = await startOtlpServer(t, secure);
    const transport = await transportTo(t, server.url);
    const headers = { 'content-type': 'application/x-protobuf' };
    t.equal((await transport.send(Buffer.from([10, 0]), headers).response).status, 200);
    t.equal(transport.isSent(), true);
  });
});

t.test('never says that the bytes are sent', async (t) => {
  await t.test('over HTTP/2, which writes past the socket', async (t) => {
    const server = createSecureServer({ ...secure, allowHTTP1: false });
    server.on('stream', (stream: ServerHttp2Stream) => {
      stream.respond({ ':status': 200 });
      stream.resume().on('end', () => stream.end());
    });
    const sessions: { destroy(): void }[] = [];
    server.on('session', (session) => sessions.push(session));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      for (const session of sessions) session.destroy();
      server.close();
    });
    const transport = await transportTo(
      t,
      `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    );
    t.equal((await transport.send(Buffer.from('body'), {}).response).status, 200);
    t.equal(sessions.length, 1);
    t.equal(transport.isSent(), false);
  });

  await t.test('through a proxy', async (t) => {
    const server = await startOtlpServer(t);
    const transport = await transportTo(t, 'http://far.test', { proxy_url: server.url });
    t.equal(transport.isSent(), false);
  });
});
