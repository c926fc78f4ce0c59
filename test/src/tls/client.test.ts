import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connect, createServer, type TlsOptions } from 'node:tls';
import t, { type Test } from 'tap';
import { clientTls } from '../../../src/schema/client-tls.ts';
import { readClientTls } from '../../../src/tls/client.ts';

const file = (name: string) => join(import.meta.dirname, '../../fixtures/tls', name);
const SECURE = { key: readFileSync(file('server.key')), cert: readFileSync(file('server.pem')) };
const CA = { ca_file: file('ca.pem') };
const OWN = { cert_file: file('client.pem'), key_file: file('client.key') };

/** The port of a TLS server that answers each secured connection with one byte. */
async function portOf(t: Test, more: TlsOptions = {}): Promise<number> {
  const server = createServer({ ...SECURE, ...more }, (socket) => {
    socket.on('error', () => {});
    socket.end('x');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Connects with this `tls`; rejects if the server, or its certificate, is refused. */
async function connected(port: number, tls: object): Promise<void> {
  const options = await readClientTls(clientTls('the server').parse(tls));
  const socket = connect({ host: '127.0.0.1', port, ...options });
  try {
    await once(socket, 'data');
  } finally {
    socket.destroy();
  }
}

t.test('trusts ca_file in place of the authorities of the system', async (t) => {
  const port = await portOf(t);
  await connected(port, CA);
  await t.rejects(connected(port, {}), { code: /SELF_SIGNED|UNABLE_TO/ });
  await connected(port, { insecure_skip_verify: true });
});

t.test('checks the name in server_name_override', async (t) => {
  const port = await portOf(t);
  await connected(port, { ...CA, server_name_override: 'gateway.test' });
  await t.rejects(connected(port, { ...CA, server_name_override: 'other.test' }), {
    code: 'ERR_TLS_CERT_ALTNAME_INVALID',
  });
});

t.test('shows the certificate of cert_file', async (t) => {
  const port = await portOf(t, { ca: readFileSync(file('ca.pem')), requestCert: true });
  await connected(port, { ...CA, ...OWN });
  await t.rejects(connected(port, CA), { code: /^(ECONNRESET|EPIPE|EPROTO|ERR_SSL_.*ALERT.*)$/ });
});

t.test('refuses a server older than min_version', async (t) => {
  const port = await portOf(t, { maxVersion: 'TLSv1.2' });
  await connected(port, CA);
  await t.rejects(connected(port, { ...CA, min_version: '1.3' }), {
    message: /protocol version|unsupported protocol/i,
  });
});

t.test('rejects if a file cannot be read', async (t) => {
  const options = readClientTls(clientTls('the server').parse({ ca_file: file('none.pem') }));
  await t.rejects(options, { code: 'ENOENT', message: /none\.pem cannot be read: ENOENT/ });
});

t.test('needs cert_file and key_file together', async (t) => {
  const issues = (tls: object) =>
    clientTls('the server')
      .safeParse(tls)
      .error?.issues.map(({ path, message }) => [path.join('.'), message]);
  const message = 'for client authentication, both cert_file and key_file must be given';
  t.same(issues({ cert_file: 'a' }), [['key_file', message]]);
  t.same(issues({ key_file: 'a' }), [['cert_file', message]]);
  t.equal(issues(OWN), undefined);
  t.equal(issues({}), undefined);
});

t.test('refuses a ca_file without an authority', async (t) => {
  const empty = join(t.testdir({ 'ca.pem': '' }), 'ca.pem');
  await t.rejects(readClientTls(clientTls('the server').parse({ ca_file: empty })), {
    message: `The TLS file ${empty} cannot be used: it has no certificate`,
  });
});
