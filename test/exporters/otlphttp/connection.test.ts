import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { otlpBatch } from '../../helper/batches.ts';
import { type OtlpServer, startOtlpServer } from '../../helper/otlp-server.ts';
import { rigOf } from './rig.ts';

t.test('connects', async (t) => {
  const file = (name: string) => join(import.meta.dirname, '../../fixtures/tls', name);
  const secure = { key: readFileSync(file('server.key')), cert: readFileSync(file('server.pem')) };
  const ca = { ca_file: file('ca.pem') };
  const sends = async (server: OtlpServer, config: object) => {
    const retry_on_failure = { enabled: false };
    const rig = await rigOf(t, {
      queue: false,
      server,
      config: { retry_on_failure, ...config },
    });
    return rig.exporter.consume(otlpBatch(1)).then(
      () => 'sent',
      (error: { code: string }) => error.code,
    );
  };

  await t.test('to a server whose certificate is trusted and has the right name', async (t) => {
    const server = await startOtlpServer(t, secure);
    t.equal(await sends(server, {}), 'connection_failed', 'the authority is unknown');
    t.equal(await sends(server, { tls: { insecure_skip_verify: true } }), 'sent');
    t.equal(await sends(server, { tls: ca }), 'sent');
    const named = (server_name_override: string) => ({ tls: { ...ca, server_name_override } });
    t.equal(await sends(server, named('gateway.test')), 'sent');
    t.equal(await sends(server, named('other.test')), 'connection_failed');
  });

  await t.test('with a certificate of its own', async (t) => {
    const server = await startOtlpServer(t, {
      ...secure,
      ca: readFileSync(file('ca.pem')),
      requestCert: true,
    });
    t.equal(await sends(server, { tls: ca }), 'connection_failed');
    const own = { cert_file: file('client.pem'), key_file: file('client.key') };
    t.equal(await sends(server, { tls: { ...ca, ...own } }), 'sent');
  });

  await t.test('with min_version or newer', async (t) => {
    const server = await startOtlpServer(t, { ...secure, maxVersion: 'TLSv1.2' });
    t.equal(await sends(server, { tls: { ...ca, min_version: '1.3' } }), 'connection_failed');
    t.equal(await sends(server, { tls: ca }), 'sent');
  });

  await t.test('only if the files can be read, which start checks', async (t) => {
    await t.rejects(rigOf(t, { queue: false, config: { tls: { ca_file: file('none.pem') } } }), {
      code: 'ENOENT',
    });
  });

  await t.test('through a proxy', async (t) => {
    const server = await startOtlpServer(t, secure);
    const asked: string[] = [];
    const proxy = createServer((request, response) => {
      asked.push(request.url ?? '');
      request.resume().on('end', () => response.end());
    });
    proxy.on('connect', (request, socket) => {
      asked.push(request.url ?? '');
      const onward = connect(Number(new URL(server.url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        onward.pipe(socket).pipe(onward);
      });
      onward.on('error', () => socket.destroy());
      socket.on('error', () => onward.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      proxy.close();
      proxy.closeAllConnections();
    });
    const proxy_url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    t.equal(await sends(server, { proxy_url, tls: ca }), 'sent');
    t.equal(server.requests.length, 1, 'https uses a tunnel');
    t.equal(await sends(server, { proxy_url, endpoint: 'http://far.test' }), 'sent');
    t.same(
      asked,
      [new URL(server.url).host, 'http://far.test/v1/traces'],
      'http requests go to the proxy itself',
    );
  });

  await t.test('once for many requests, or once per request', async (t) => {
    for (const disable_keep_alives of [false, true]) {
      const server = await startOtlpServer(t);
      const rig = await rigOf(t, { queue: false, server, config: { disable_keep_alives } });
      for (let i = 0; i < 6; i++) await rig.exporter.consume(otlpBatch(1));
      const ports = new Set(server.requests.map(({ port }) => port));
      t.equal(ports.size === 6, disable_keep_alives);
    }
  });
});
