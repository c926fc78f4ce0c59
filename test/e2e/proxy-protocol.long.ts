import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import t, { type Test } from 'tap';
import { makeToken } from '../../src/tenancy/token.ts';
import { otlpProtoBody } from '../helper/batches.ts';
import { freePorts } from '../helper/free-ports.ts';
import { grpcClient } from '../helper/grpc.ts';
import { until } from '../helper/until.ts';
import { send } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { treeAt } from './shipped.ts';

/**
 * The PROXY protocol and the headers of proxies on every listener. The limit of failed authentications shows which client
 * the daemon sees: a client's third failure is throttled, and another client's first one is not.
 */

t.setTimeout(300_000);

/** Only this peer is a trusted proxy; the tests themselves connect from 127.0.0.1. */
const PROXY = '127.0.0.2';
const proxies = { trusted_proxies: [PROXY], proxy_protocol: true };
const fixture = (name: string) => join(import.meta.dirname, '../fixtures/tls', name);

function headerOf(client: string, version: 1 | 2): Buffer {
  if (version === 1) return Buffer.from(`PROXY TCP4 ${client} 203.0.113.7 35646 443\r\n`);
  const signature = Buffer.from('0d0a0d0a000d0a515549540a2111000c', 'hex');
  return Buffer.concat([
    signature,
    Buffer.from(client.split('.').map(Number)),
    Buffer.from([203, 0, 113, 7, 0x8b, 0x3e, 1, 0xbb]),
  ]);
}

/** A load balancer in front of a listener; returns its URL. */
async function balancer(t: Test, base: string, before: Buffer): Promise<string> {
  const target = new URL(base);
  const server = createServer((socket) => {
    const upstream = connect({
      ...{ host: target.hostname, port: Number(target.port), localAddress: PROXY },
    });
    upstream.write(before);
    socket.pipe(upstream).pipe(socket);
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
    socket.on('close', () => upstream.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => void server.close());
  return `${target.protocol}//127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The bytes that the listener answers a trusted peer with before it closes the connection. */
function answerTo(base: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve) => {
    let text = '';
    const socket = connect({ host: hostname, port: Number(port), localAddress: PROXY });
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(text));
    socket.write(bytes);
  });
}

async function startBehindProxies(t: Test, tls?: object) {
  const [grpcPort] = await freePorts(1);
  const listener = { ...proxies, ...(tls === undefined ? {} : { tls }) };
  const daemon = await startDaemon(t, {
    edit(config) {
      for (const name of ['native', 'runs']) {
        Object.assign(treeAt(config, 'receivers', name), listener);
      }
      const protocols = treeAt(config, 'receivers', 'otlp', 'protocols');
      Object.assign(treeAt(protocols, 'http'), listener);
      protocols.grpc = { endpoint: `127.0.0.1:${grpcPort}`, ...listener };
      Object.assign(treeAt(config, 'extensions', 'admin'), proxies);
      Object.assign(treeAt(config, 'extensions', 'health_check'), proxies);
      Object.assign(treeAt(config, 'service', 'telemetry', 'metrics'), proxies);
      treeAt(config, 'processors').quotas = {
        store: 'sqlite',
        edge: { failed_authentications: { per_minute: 0.1, burst: 2 } },
      };
    },
  });
  return { daemon, grpc: `http://127.0.0.1:${grpcPort}` };
}

const wrongKey = () => ({ 'x-api-key': makeToken() });

t.test('takes the client from the header on every listener', async (t) => {
  const { daemon, grpc } = await startBehindProxies(t);
  for (const version of [1, 2] as const) {
    const statuses: number[] = [];
    for (const client of [1, 1, 1, 2]) {
      const base = await balancer(t, daemon.base, headerOf(`198.51.${version}.${client}`, version));
      const answer = await send(base, { path: '/api/v1/traces', headers: wrongKey() });
      statuses.push(answer.status);
    }
    t.same(statuses, [401, 401, 429, 401], `HTTP, version ${version}`);

    const codes: number[] = [];
    for (const client of [11, 11, 11, 12]) {
      const url = await balancer(t, grpc, headerOf(`198.51.${version}.${client}`, version));
      const call = { metadata: wrongKey(), deadlineMs: 10_000 };
      codes.push((await grpcClient(t, url).call(otlpProtoBody([{}]), call)).code);
    }
    t.same(codes, [16, 16, 8, 16], `gRPC, version ${version}`);

    for (const [base, path, status] of [
      [daemon.health, '/livez', 200],
      [daemon.metricsBase, '/metrics', 200],
      [daemon.adminBase, '/api/v1/openapi.json', 200],
    ] as const) {
      const url = await balancer(t, base, headerOf('198.51.100.9', version));
      t.equal((await send(url, { path })).status, status, `${path}, version ${version}`);
    }
  }
  const key = { metadata: { 'x-api-key': daemon.key }, deadlineMs: 10_000 };
  const url = await balancer(t, grpc, headerOf('198.51.1.11', 1));
  t.equal((await grpcClient(t, url).call(otlpProtoBody([{}]), key)).code, 0, 'a valid key');
});

t.test('refuses a missing or late header of a trusted proxy, and only of it', async (t) => {
  const { daemon, grpc } = await startBehindProxies(t);
  const listeners = [
    daemon.base,
    daemon.health,
    daemon.metricsBase,
    daemon.adminBase,
    grpc,
  ] as const;
  const refused = (reason: RegExp) =>
    daemon
      .stderr()
      .split('\n')
      .filter((line) => /PROXY protocol/.test(line) && reason.test(line)).length;
  await Promise.all(
    listeners.map(async (base) => {
      for (const bytes of ['GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', 'PROXY TCP4\r\n']) {
        t.equal(await answerTo(base, bytes), '', `${base} closes the connection`);
      }
    }),
  );
  await until(() => refused(/missing or malformed/) >= listeners.length);
  t.equal(refused(/missing or malformed/), listeners.length, 'one line for each listener');
  await Promise.all(listeners.map((base) => answerTo(base, 'PROXY ')));
  t.equal((await send(daemon.health, { path: '/livez' })).status, 200, 'a peer without a header');
  const forged = await send(daemon.base, {
    path: '/api/v1/traces',
    headers: { ...wrongKey(), 'x-forwarded-for': '198.51.100.77' },
  });
  t.equal(forged.status, 401);
});

t.test('reads the header before the TLS handshake', async (t) => {
  const tls = { cert_file: fixture('server.pem'), key_file: fixture('server.key') };
  const { daemon, grpc } = await startBehindProxies(t, tls);
  const ca = readFileSync(fixture('ca.pem'));
  const ask = (base: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      const { port } = new URL(base);
      const agent = new Agent({ ca, keepAlive: false });
      const sent = request(
        { ...{ host: 'localhost', port, path: '/api/v1/traces' }, agent, headers: wrongKey() },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      );
      sent.on('error', reject).end();
    });
  const statuses: (number | undefined)[] = [];
  const codes: number[] = [];
  for (const client of [1, 1, 1, 2]) {
    statuses.push(await ask(await balancer(t, daemon.base, headerOf(`198.51.100.${client}`, 2))));
    const url = await balancer(t, grpc, headerOf(`198.51.101.${client}`, 1));
    const local = url.replace('127.0.0.1', 'localhost');
    const caller = grpcClient(t, local, {}, credentials.createSsl(ca));
    const call = { metadata: wrongKey(), deadlineMs: 10_000 };
    codes.push((await caller.call(otlpProtoBody([{}]), call)).code);
  }
  t.same(statuses, [401, 401, 429, 401]);
  t.same(codes, [16, 16, 8, 16]);
});

t.test('takes the client of a gRPC call from the metadata of a trusted proxy', async (t) => {
  const [port] = await freePorts(1);
  const limits = { edge: { failed_authentications: { per_minute: 0.1, burst: 2 } } };
  const start = (trusted: string): Promise<Daemon> =>
    startDaemon(t, {
      config: {
        receivers: {
          otlp: {
            protocols: { grpc: { endpoint: `127.0.0.1:${port}`, trusted_proxies: [trusted] } },
          },
        },
        processors: { quotas: limits },
      },
    });
  const codes = async (name: string, of: (client: string) => string) => {
    const found: number[] = [];
    for (const client of ['1', '1', '1', '2']) {
      const metadata = { ...wrongKey(), [name]: of(`198.51.100.${client}`) };
      const call = { metadata, deadlineMs: 10_000 };
      const { code } = await grpcClient(t, `http://127.0.0.1:${port}`).call(
        otlpProtoBody([{}]),
        call,
      );
      found.push(code);
    }
    return found;
  };
  const behind = await start('127.0.0.1');
  t.same(await codes('x-forwarded-for', (client) => client), [16, 16, 8, 16]);
  await behind.remove();
  const forwarded = await start('127.0.0.1');
  t.same(await codes('forwarded', (client) => `for=${client}`), [16, 16, 8, 16]);
  await forwarded.remove();
  await start('127.0.0.9');
  t.same(await codes('x-forwarded-for', (client) => client), [16, 16, 8, 8], 'another peer');
});
