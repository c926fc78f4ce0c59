import { Agent } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { freePorts } from '../../helper/free-ports.ts';
import { bareClient, EXPORT, framed } from '../../helper/grpc.ts';
import { eventually, send } from '../client.ts';
import type { Daemon } from '../daemon.ts';
import { startDaemon, total } from '../daemon.ts';
import { headOf } from './attacks.ts';
import { hoardedStreams } from './hoarded-streams.ts';
import { victimKey } from './victim.ts';

/** Requests that never end hold all connections of a listener, beside a client at another address. */

t.setTimeout(300_000);

const MAX_CONNECTIONS = 60;
const ATTACKERS = ['127.0.0.1', '127.0.0.2', '127.0.0.3'];
const CLIENT = '127.0.0.4';
/** Of the connections of a listener, with the client. */
const SHARE = MAX_CONNECTIONS / (ATTACKERS.length + 1);
const ROUNDS = 20;
/** A client without a descriptor is closed, and finds one at a next attempt. */
const MOST_ATTEMPTS = 3;

/** Sends on each of more connections than there are, and again at each answer; the function ends that. */
function flood(base: string, key: string): () => void {
  const { hostname, port } = new URL(base);
  const sockets = new Set<Socket>();
  let isOver = false;
  let sent = 0;
  const open = (localAddress: string): void => {
    const socket = connect({ host: hostname, port: Number(port), localAddress });
    sockets.add(socket);
    const next = (): void => {
      const body = oneEvent(`flood-${++sent}`);
      socket.write(headOf({ key }, `content-length: ${body.length}`) + body);
    };
    socket.on('error', () => {});
    socket.once('connect', next).on('data', next);
    socket.once('close', () => {
      sockets.delete(socket);
      if (!isOver) setTimeout(open, 50, localAddress);
    });
  };
  for (let i = 0; i < 1.5 * MAX_CONNECTIONS; i++) open(ATTACKERS[i % ATTACKERS.length] ?? '');
  return () => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
  };
}

function oneEvent(id: string): string {
  const event = { id, trace_id: id, operation: 'finish', kind: 'span', status: 'ok' };
  return JSON.stringify({ events: [event] });
}

/** Holds more connections than there are, and opens each again when it is closed; the function ends that. */
function hold(base: string, bytes: Buffer, more: Buffer, count = 2 * MAX_CONNECTIONS): () => void {
  const { hostname, port } = new URL(base);
  const sockets = new Set<Socket>();
  let isOver = false;
  const open = (localAddress: string): void => {
    const socket = connect({ host: hostname, port: Number(port), localAddress });
    sockets.add(socket);
    socket.on('error', () => {}).resume();
    socket.once('connect', () => socket.write(bytes));
    socket.once('close', () => {
      sockets.delete(socket);
      if (!isOver) setTimeout(open, 50, localAddress);
    });
  };
  for (let i = 0; i < count; i++) open(ATTACKERS[i % ATTACKERS.length] ?? '');
  const drip = setInterval(() => {
    for (const socket of sockets) if (socket.writable) socket.write(more);
  }, 100);
  return () => {
    isOver = true;
    clearInterval(drip);
    for (const socket of sockets) socket.destroy();
  };
}

const full = { max_connections: MAX_CONNECTIONS, body_min_rate: '1' };
const slow = { body_min_rate: '1' };
const SLOW = { native: slow, runs: slow, otlp: { protocols: { http: slow } } };

async function startFull(t: Parameters<typeof startDaemon>[0]) {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const config = {
    receivers: {
      native: full,
      runs: full,
      otlp: { protocols: { http: full, grpc: { endpoint, ...full } } },
    },
  };
  const daemon = await startDaemon(t, { config });
  const token = await victimKey(daemon);
  const connections = async (transport: 'http' | 'grpc') =>
    total(await daemon.metrics(), `tracectl_${transport}_connections`);
  return { daemon, token, grpc: `http://${endpoint}`, connections };
}

/** The status of the answer to one event; 0 without an answer. */
async function post({ base }: Daemon, token: string, agent: Agent, id: string): Promise<number> {
  const answer = await send(base, {
    ...{ method: 'POST', path: '/api/v1/observations/batch', agent },
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: oneEvent(id),
  }).catch(() => undefined);
  return answer?.status ?? 0;
}

/** Opens connections until one is closed for want of a descriptor, and closes them. Resolves with the number of those that stayed. */
async function roomOf({ base, key }: Daemon): Promise<number> {
  const { hostname: host, port } = new URL(base);
  const sockets: Socket[] = [];
  let isFull = false;
  while (!isFull) {
    const socket = connect({ host, port: Number(port) }).on('error', () => {});
    sockets.push(socket);
    socket.write(headOf({ key }, 'content-length: 1000000'));
    await sleep(20);
    isFull = socket.destroyed;
  }
  for (const socket of sockets) socket.destroy();
  return sockets.length - 1;
}

const KINDS = {
  'bodies of a byte each 100 ms': ['content-length: 1000000', ' '],
  'chunks of a byte each 100 ms': ['transfer-encoding: chunked', '1\r\n \r\n'],
  'heads that wait for 100 Continue': ['content-length: 1000000\r\nexpect: 100-continue', ''],
} as const;

t.test('a client at another address has its share of the connections over HTTP', async (t) => {
  const { daemon, token, connections } = await startFull(t);
  let sent = 0;
  const sendOne = (agent: Agent) => post(daemon, token, agent, `client-${++sent}`);
  const attacks = Object.entries(KINDS).map(([name, [framing, more]]) => {
    const head = Buffer.from(headOf(daemon, framing));
    return [name, () => hold(daemon.base, head, Buffer.from(more))] as const;
  });
  const flooded = () => flood(daemon.base, daemon.key);
  for (const [name, attack] of [...attacks, ['valid bodies without pause', flooded] as const]) {
    const end = attack();
    t.teardown(end);
    await eventually(
      () => connections('http'),
      (open) => open >= MAX_CONNECTIONS,
      'connections that are all taken',
    );
    const agent = new Agent({ localAddress: CLIENT } as object);
    const statuses: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      statuses.push(...(await Promise.all(Array.from({ length: SHARE }, () => sendOne(agent)))));
      await sleep(50);
    }
    end();
    t.equal(statuses.length, ROUNDS * SHARE);
    t.strictSame(new Set(statuses), new Set([202]), name);
  }
  t.equal(daemon.running(), true);
});

t.test('a client at another address has its share of the connections over gRPC', async (t) => {
  const { daemon, token, grpc, connections } = await startFull(t);
  const { hostname: host, port } = new URL(grpc);
  const end = hold(grpc, hoardedStreams(daemon.key, 2), Buffer.alloc(0));
  t.teardown(end);
  await eventually(
    () => connections('grpc'),
    (open) => open >= MAX_CONNECTIONS,
    'connections that are all taken',
  );
  const createConnection = () => connect({ host, port: Number(port), localAddress: CLIENT });
  const exportOne = async (): Promise<string | undefined> => {
    const client = bareClient(t, grpc, { createConnection });
    const call = client.call(['authorization', `Bearer ${token}`], EXPORT);
    call.stream.end(framed(Buffer.alloc(0)));
    const { 'grpc-status': status } = await call.end;
    client.session.destroy();
    return status;
  };
  const statuses: (string | undefined)[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    statuses.push(...(await Promise.all(Array.from({ length: SHARE }, exportOne))));
    await sleep(50);
  }
  end();
  t.strictSame(new Set(statuses), new Set(['0']));
  t.equal(daemon.running(), true);
});

t.test('a client at another address gets its share of few file descriptors', async (t) => {
  const daemon = await startDaemon(t, { config: { receivers: SLOW }, openFiles: 120 });
  const token = await victimKey(daemon);
  const [framing, more] = KINDS['bodies of a byte each 100 ms'];
  const held = await roomOf(daemon);
  const end = hold(daemon.base, Buffer.from(headOf(daemon, framing)), Buffer.from(more), held);
  t.teardown(end);
  await eventually(
    () => daemon.metrics(),
    (samples) => total(samples, 'tracectl_http_connections') >= held - 1,
    'descriptors that are all taken',
  );
  const agent = new Agent({ localAddress: CLIENT } as object);
  const failed: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    let [status, attempts] = [0, 0];
    while (status !== 202 && attempts++ < MOST_ATTEMPTS) {
      status = await post(daemon, token, agent, `short-${round}`);
    }
    if (status !== 202) failed.push(`round ${round}: ${status}`);
    await sleep(50);
  }
  end();
  t.strictSame(failed, []);
  t.equal(daemon.running(), true);
});
