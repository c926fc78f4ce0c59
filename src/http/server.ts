import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Server as TlsServer } from 'node:tls';
import type { Clock, Logger, RequestHead } from '../component/component.ts';
import { gaveWay, Refusal } from '../model/errors.ts';
import { listenOn } from '../net/address.ts';
import { clientAddresses } from '../net/client-address.ts';
import { ConnectionPlaces, connectionBounds } from '../net/connection-places.ts';
import { clientNetwork } from '../net/network.ts';
import { offersUpgrade } from '../net/offers-upgrade.ts';
import type { ProxySettings } from '../net/proxy-gate.ts';
import { ProxyGate } from '../net/proxy-gate.ts';
import { turnsOf } from '../net/turns.ts';
import { tlsGateOf } from '../tls/secured.ts';
import type { BodyRate } from './body-pace.ts';
import type { Pending } from './connection-requests.ts';
import { ConnectionRequests } from './connection-requests.ts';
import { renderEnvelopeRefusal } from './envelope.ts';
import type { Answer, Exchange, RenderRefusal } from './exchange.ts';
import { answer } from './exchange.ts';
import type { Handler } from './routes.ts';
import { parseTarget } from './routes.ts';

const { createServer, STATUS_CODES } = process.getBuiltinModule('node:http');

/**
 * One node:http server on one address. It handles HTTP and connections; `find` chooses the route of a request.
 * No request of a client makes it throw.
 *
 *   socket ─▶ Node's strict parser ─▶ head hygiene ─▶ find(method, path) ─▶ handler
 *                  └─ malformed, slow, too long ─▶ 400, 408, 431, and the connection ends
 */
export type HttpServer = {
  /** Rejects if the address cannot be bound. */
  listen(): Promise<void>;
  /** The bound address, with the real port if port 0 was requested. Undefined while not listening. */
  address(): AddressInfo | undefined;
  /** Stops accepting and closes idle connections. Other connections finish, or are cut at the deadline. */
  close(deadline: AbortSignal): Promise<void>;
  readonly connections: number;
  limit(limits: ServerLimits): void;
  /** From now on new connections use this TLS server; undefined: plain HTTP. */
  secure(tls: TlsServer | undefined): void;
};

export type ServerLimits = ProxySettings & {
  /** Milliseconds from the first byte of a request to the end of its head. */
  readonly readHeaderTimeout: number;
  /** Milliseconds from the first byte of a request to the end of its body. */
  readonly readTimeout: number;
  /** Milliseconds in which a client takes no byte of an answer; then its connection is cut. */
  readonly writeTimeout: number;
  readonly bodyRate: BodyRate;
  /** At the bounds, a new connection replaces an idle one; if all are busy, `ConnectionPlaces` decides. */
  readonly maxConnections: number;
  /** Does not hold for trusted proxies. */
  readonly maxConnectionsPerAddress: number;
};

/** The route of a request, or a `Refusal` in the shape of the nearest route. */
export type Found =
  | {
      handler: Handler;
      params: Record<string, string>;
      renderRefusal: RenderRefusal;
      /** The request waits until the earlier ones of its connection are answered. */
      oneAtATime: boolean;
      done(): void;
    }
  | { refusal: Refusal; renderRefusal: RenderRefusal };

type ServerOptions = {
  readonly host: string;
  readonly port: number;
  /** Other processes of this user may bind the same port; each connection is accepted by one of them. */
  readonly sharesPort: boolean;
  readonly limits: ServerLimits;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly find: (method: string, path: string) => Found;
};

/** A query of the most characters fits, percent-encoded: 2,048 times 12 bytes. */
const MAX_HEADER_BYTES = 32_768;
/** Milliseconds; short enough that a time-out is at most a fifth late. */
const MOST_INTERVAL_MS = 2_000;
const LEAST_INTERVAL_MS = 50;
const KEEP_ALIVE_MS = 60_000;

/** Requests that a listener begins in one turn of the event loop. */
const REQUESTS_PER_TURN = 16;

/** The header `Expect` of a request: `100-continue`, or another value. */
type Expectation = 'continue' | 'unknown';

/** Node's types do not have the property. */
type HalfOpenServer = Server & { httpAllowHalfOpen: boolean };

export function createHttpServer(options: ServerOptions): HttpServer {
  const server = createServer({
    connectionsCheckingInterval: checkInterval(options.limits),
    insecureHTTPParser: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // `improperHead` refuses such a request in the shape of its route.
    requireHostHeader: false,
    maxHeaderSize: MAX_HEADER_BYTES,
  });
  // A client may end its side behind its request, and still reads the answer.
  (server as HalfOpenServer).httpAllowHalfOpen = true;
  const { clock, logger, host, port, sharesPort } = options;
  const proxies = new ProxyGate({ clock, logger, endpoint: `${host}:${port}` });
  const connections = new Connections(options, proxies);
  const gate = tlsGateOf(server, (socket) => connections.track(socket));
  // After the header of a proxy, and before the gate begins the TLS handshake.
  server.prependListener('connection', (socket: Socket) => {
    connections.places.enter(socket, proxies.clientOf(socket));
  });
  proxies.guard(server);
  server.on('request', (request, response) => connections.accept(request, response));
  server.on('checkContinue', (request, response) => {
    connections.accept(request, response, 'continue');
  });
  server.on('checkExpectation', (request, response) => {
    connections.accept(request, response, 'unknown');
  });
  server.on('connect', (_request, socket) => connections.refuseTunnel(socket as Socket));
  server.on('clientError', (error, socket) => connections.answerDamaged(error, socket as Socket));
  server.on('timeout', (socket) => connections.checkProgress(socket, server.timeout));
  const limit = (limits: ServerLimits): void => {
    server.headersTimeout = headTimeout(limits);
    server.requestTimeout = limits.readTimeout;
    server.timeout = limits.writeTimeout;
    connections.limit(limits);
    proxies.use(limits);
  };
  limit(options.limits);
  return {
    listen: () => listenOn(server, { host, port, reusePort: sharesPort }),
    address() {
      const address = server.address();
      return typeof address === 'object' && address !== null ? address : undefined;
    },
    async close(deadline) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      const cut = (): void => connections.cut();
      proxies.close();
      gate.close();
      connections.drain();
      if (deadline.aborted) cut();
      deadline.addEventListener('abort', cut, { once: true });
      await closed;
      deadline.removeEventListener('abort', cut);
    },
    get connections() {
      return connections.count;
    },
    limit,
    secure: gate.use,
  };
}

/** The connections of one server, and the requests in progress on each. */
class Connections {
  readonly places: ConnectionPlaces;
  readonly #options: ServerOptions;
  readonly #proxies: ProxyGate;
  readonly #sockets = new Map<Socket, ConnectionRequests>();
  readonly #turns = turnsOf(REQUESTS_PER_TURN);
  #draining = false;

  #clientOf = clientAddresses([]);
  #bodyRate: BodyRate;

  constructor(options: ServerOptions, proxies: ProxyGate) {
    this.#options = options;
    this.#proxies = proxies;
    this.#bodyRate = options.limits.bodyRate;
    this.places = new ConnectionPlaces(connectionBounds(options.limits), options.clock);
  }

  get count(): number {
    return this.#sockets.size;
  }

  limit(limits: ServerLimits): void {
    this.#clientOf = clientAddresses(limits.trustedProxies ?? []);
    this.#bodyRate = limits.bodyRate;
    this.places.limit(connectionBounds(limits));
  }

  track(socket: Socket): void {
    const lane = this.#turns.laneOf(socket, () => clientNetwork(this.#proxies.clientOf(socket)));
    const requests = new ConnectionRequests(socket, lane);
    this.#sockets.set(socket, requests);
    socket.once('end', () => requests.endOfClient());
    socket.once('close', () => this.#sockets.delete(socket));
  }

  accept(request: IncomingMessage, response: ServerResponse, expectation?: Expectation): void {
    const requests = this.#sockets.get(request.socket);
    if (requests?.hasRoom() !== true) return;
    const target = parseTarget(request.url ?? '');
    const { clock } = this.#options;
    const head = headOf(request, target?.path ?? '', clock.now(), (headers) =>
      this.#clientOf(this.#proxies.clientOf(request.socket), headers),
    );
    const found = target === undefined ? badTarget() : this.#options.find(head.method, head.path);
    const place = this.places.occupy(request.socket);
    const exchange: Exchange = {
      head,
      params: 'params' in found ? found.params : {},
      query: target?.query ?? '',
      request,
      response,
      expectsContinue: expectation === 'continue',
      stopping: () => this.#draining,
      clock,
      bodyRate: this.#bodyRate,
      yields: (end) =>
        place.yields(() => {
          response.shouldKeepAlive = false;
          requests.close();
          end(gaveWay());
        }),
    };
    const { renderRefusal } = found;
    const pending: Pending = {
      exchange,
      renderRefusal,
      isRead: 'oneAtATime' in found && found.oneAtATime,
    };
    requests.enter(pending, () => {
      if ('done' in found) found.done();
      place.leave();
      if (this.#draining && requests.size === 0) request.socket.destroySoon();
    });
    // Before the route: an improper head ends the connection at any path.
    const improper = improperHead(request, head, expectation);
    const refusal = improper ?? ('refusal' in found ? found.refusal : undefined);
    if (improper !== undefined || refusal?.status === 400 || offersUpgrade(request)) {
      response.shouldKeepAlive = false;
      requests.close();
    }
    requests.begin(pending, () => {
      if (refusal !== undefined) answer(exchange, renderRefusal(refusal, head));
      else if ('handler' in found) this.#handle(exchange, found.handler, renderRefusal);
    });
  }

  /** Answers CONNECT, which Node takes for the end of HTTP on the connection. */
  refuseTunnel(socket: Socket): void {
    socket.on('error', () => {});
    // An answer would be taken for that of an earlier request.
    if ((this.#sockets.get(socket)?.size ?? 0) > 0) socket.destroy();
    else endWith(socket, renderEnvelopeRefusal(NO_PROXY, NO_HEAD));
  }

  /** Called after a time without progress on the socket. An idle connection ends, and one whose client does not read. */
  checkProgress(socket: Socket, again: number): void {
    const isBusy = (this.#sockets.get(socket)?.size ?? 0) > 0;
    if (isBusy && socket.writableLength === 0) socket.setTimeout(again);
    else socket.destroy();
  }

  #handle(exchange: Exchange, handler: Handler, renderRefusal: RenderRefusal): void {
    // Handlers answer their own failures: this is a fault of the program, and the process survives it.
    const failed = (error: unknown): void => {
      const { method, path } = exchange.head;
      this.#options.logger.error({ err: error, method, path }, 'Request handler failed');
      const refusal = new Refusal('unavailable', 'The request could not be handled. Try again.', {
        retryAfterMs: 5000,
      });
      if (exchange.response.headersSent) exchange.request.socket.destroy();
      else answer(exchange, renderRefusal(refusal, exchange.head));
    };
    try {
      handler(exchange)?.catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  /** Answers malformed HTTP, slow requests and long heads on the socket, and ends the connection. */
  answerDamaged(error: NodeJS.ErrnoException, socket: Socket): void {
    const underWay = [...(this.#sockets.get(socket) ?? [])];
    const current = underWay.find(({ exchange }) => !exchange.request.complete);
    const answering = underWay.find((pending) => pending !== current);
    const started = current?.exchange.response.headersSent === true;
    if (!socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    if (started) {
      // The request was refused before its body: its answer, which may not be written yet, says why.
      socket.destroySoon();
      return;
    }
    if (answering !== undefined) {
      // The malformed bytes follow a valid request, which still gets its answer.
      answering.exchange.response.once('close', () => socket.destroy());
      return;
    }
    const render = current?.renderRefusal ?? renderEnvelopeRefusal;
    endWith(socket, render(refusalOfDamage(error), current?.exchange.head ?? NO_HEAD));
  }

  /** Closes idle connections. Each other connection ends with the answer to its request. */
  drain(): void {
    this.#draining = true;
    for (const [socket, underWay] of this.#sockets) if (underWay.size === 0) socket.destroy();
  }

  cut(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }
}

/** The shorter of the two time-outs that a head has. 0 is none, as in the Collector. */
function headTimeout({ readHeaderTimeout: head, readTimeout: whole }: ServerLimits): number {
  return Math.min(head || whole, whole || head);
}

/** Milliseconds between two checks of the time-outs. Node fixes it with the server: after a reload to a shorter time-out, one is up to 2 s late. */
export function checkInterval(limits: ServerLimits): number {
  const fifth = (headTimeout(limits) || Infinity) / 5;
  return Math.min(MOST_INTERVAL_MS, Math.max(LEAST_INTERVAL_MS, fifth));
}

function headOf(
  request: IncomingMessage,
  path: string,
  now: number,
  clientOf: (headers: ReadonlyMap<string, readonly string[]>) => string,
): RequestHead {
  const headers = new Map<string, string[]>();
  const raw = request.rawHeaders;
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = (raw[i] ?? '').toLowerCase();
    const values = headers.get(name);
    if (values === undefined) headers.set(name, [raw[i + 1] ?? '']);
    else values.push(raw[i + 1] ?? '');
  }
  return {
    transport: 'http',
    method: request.method ?? '',
    path,
    headers,
    remoteAddress: clientOf(headers),
    receivedAt: now,
    declaredBytes: declaredBytes(headers),
  };
}

function declaredBytes(headers: ReadonlyMap<string, readonly string[]>): number | undefined {
  if (headers.has('transfer-encoding')) return undefined;
  const declared = headers.get('content-length')?.[0];
  return declared === undefined ? 0 : Number(declared);
}

/**
 * Request smuggling: a proxy and this server must agree on the end of a request, and on its host. Node's parser refuses a
 * body with two framings; this refuses a transfer encoding other than chunked, no host or a second one (RFC 9112, 3.2), and an expectation
 * that is not met: its client may leave the body out.
 */
function improperHead(
  request: IncomingMessage,
  { headers }: RequestHead,
  expectation: Expectation | undefined,
): Refusal | undefined {
  const hosts = headers.get('host')?.length ?? 0;
  if (hosts > 1) {
    return new Refusal('invalid_request', 'The request has more than one Host header.');
  }
  if (hosts === 0 && request.httpVersion !== '1.0') {
    return new Refusal('invalid_request', 'The request has no Host header.');
  }
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') {
    return new Refusal('invalid_request', 'The only supported transfer encoding is chunked.');
  }
  if (expectation !== 'unknown') return undefined;
  const message = 'The only supported expectation is 100-continue.';
  return new Refusal('invalid_request', message, { status: 417 });
}

function badTarget(): Found {
  const refusal = new Refusal('invalid_request', 'The request target is malformed.');
  return { refusal, renderRefusal: renderEnvelopeRefusal };
}

function refusalOfDamage(error: NodeJS.ErrnoException): Refusal {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Refusal('request_timeout', 'The request took too long to arrive.');
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal('invalid_request', 'The headers exceed 32 KiB.', { status: 431 });
    default:
      return new Refusal('invalid_request', 'This is not a well-formed HTTP/1.1 request.');
  }
}

const NO_PROXY = new Refusal('invalid_request', 'This server is no proxy: it takes no CONNECT.');

function endWith(socket: Socket, reply: Answer): void {
  socket.end(rawAnswer(reply), () => socket.destroy());
}

function rawAnswer(reply: Answer): Buffer {
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  let head = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status] ?? ''}\r\n`;
  head += `content-type: ${reply.contentType}\r\ncontent-length: ${body.length}\r\n`;
  for (const name in reply.headers) head += `${name}: ${reply.headers[name] ?? ''}\r\n`;
  return Buffer.concat([Buffer.from(`${head}connection: close\r\n\r\n`, 'latin1'), body]);
}

const NO_HEAD: RequestHead = {
  transport: 'http',
  method: '',
  path: '',
  headers: new Map(),
  remoteAddress: '',
  receivedAt: 0,
  declaredBytes: undefined,
};
