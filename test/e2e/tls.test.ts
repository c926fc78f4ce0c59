import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import t from 'tap';
import { nativeEvent, otlpProtoBody } from '../helper/batches.ts';
import { freePorts } from '../helper/free-ports.ts';
import { grpcClient } from '../helper/grpc.ts';
import { prepareDaemon } from './daemon.ts';
import { treeAt } from './shipped.ts';

/** The daemon with TLS and client certificates on every listener. */

t.setTimeout(60_000);

const fixture = (name: string) => join(import.meta.dirname, '../fixtures/tls', name);
const pem = (name: string) => readFileSync(fixture(name));

t.test('every listener serves TLS and checks client certificates', async (t) => {
  const [grpcPort] = await freePorts(1);
  const tls = {
    cert_file: fixture('server.pem'),
    key_file: fixture('server.key'),
    client_ca_file: fixture('ca.pem'),
  };
  const daemon = await prepareDaemon({
    edit(config) {
      for (const name of ['native', 'runs']) treeAt(config, 'receivers', name).tls = tls;
      const protocols = treeAt(config, 'receivers', 'otlp', 'protocols');
      treeAt(protocols, 'http').tls = tls;
      protocols.grpc = { endpoint: `127.0.0.1:${grpcPort}`, tls };
      treeAt(config, 'extensions', 'admin').tls = tls;
      treeAt(config, 'service', 'telemetry', 'metrics').tls = tls;
    },
  });
  t.teardown(() => daemon.remove());
  await daemon.start();
  t.match(daemon.stdout(), /curl -s https:\/\/127\.0\.0\.1/, 'what it prints to try is https');

  const own = { ca: pem('ca.pem'), cert: pem('client.pem'), key: pem('client.key') };
  const ask = async (base: string, path: string, more: object, body?: string): Promise<number> => {
    const url = new URL(path, base.replace('http://', 'https://'));
    const headers = { 'x-api-key': daemon.key, 'content-type': 'application/json' };
    const asked = request(url, {
      ...{ method: body === undefined ? 'GET' : 'POST', headers, agent: false },
      ...more,
    });
    asked.end(body);
    const [response] = await once(asked, 'response');
    response.resume();
    return response.statusCode;
  };
  const event = JSON.stringify({ events: [nativeEvent()] });
  t.equal(await ask(daemon.base, '/api/v1/observations/batch', own, event), 202);
  t.equal(await ask(daemon.base, '/api/v1/me', own), 200);
  t.equal(await ask(daemon.metricsBase, '/metrics', own), 200);
  t.equal(await ask(daemon.adminBase, '/api/v1/organization', own), 401, 'no admin token');
  const stranger = { ca: own.ca };
  for (const base of [daemon.base, daemon.metricsBase, daemon.adminBase]) {
    await t.rejects(ask(base, '/', stranger), {
      code: /^(ECONNRESET|EPIPE|EPROTO|ERR_SSL_.*ALERT.*)$/,
    });
  }
  const call = (creds: ReturnType<typeof credentials.createSsl>) =>
    grpcClient(t, `http://localhost:${grpcPort}`, {}, creds).call(otlpProtoBody([{}]), {
      metadata: { 'x-api-key': daemon.key },
      deadlineMs: 5_000,
    });
  t.equal((await call(credentials.createSsl(own.ca, own.key, own.cert))).code, 0);
  t.equal((await call(credentials.createSsl(own.ca))).code, 14);
  t.strictSame(await daemon.end('SIGTERM'), { code: 0, signal: null });
});
