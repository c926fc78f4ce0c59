import type { ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock, Logger, Metrics } from '../../src/component/component.ts';
import type { HealthSource } from '../../src/component/health.ts';
import type { Exchange } from '../../src/http/exchange.ts';
import { compilePath, matchPath, parseTarget } from '../../src/http/routes.ts';
import { MAX_ID_BYTES } from '../../src/model/json/id.ts';
import { idOfSegment } from '../../src/model/path-id.ts';
import { boundAddress } from '../../src/net/address.ts';
import { boundConnections } from '../../src/net/bounded-connections.ts';
import { clientAddresses } from '../../src/net/client-address.ts';
import { hasManyHosts, ownHostCheck } from '../../src/net/own-host.ts';
import { ProxyGate } from '../../src/net/proxy-gate.ts';
import type { ProjectReads } from '../../src/read/project-reads.ts';
import { parseEndpoint } from '../../src/schema/fields.ts';
import type { ServerTls } from '../../src/schema/server-tls.ts';
import { proxySettings } from '../../src/schema/trusted-proxies.ts';
import type { Store } from '../../src/store/store.ts';
import type { UiSession } from '../../src/tenancy/ui-sessions.ts';
import { secureHttp } from '../../src/tls/secured.ts';
import type { AdminAccess } from './access.ts';
import { trackConnections } from './connections.ts';
import { damageAnswer } from './damage.ts';
import { ERASURE_OPERATIONS } from './erasures.ts';
import { ApiError, apiErrorOf } from './errors.ts';
import { exchanges, headersOf } from './exchanges.ts';
import { openApiDocument } from './openapi.ts';
import type { Operation } from './operation.ts';
import { ANSWERED, operation } from './operation.ts';
import { OPERATIONS } from './operations.ts';
import type { Pages } from './pages.ts';
import { sendUnknownPage, servePages } from './pages.ts';
import { parseBody, parseWith } from './parse.ts';
import type { PayloadAudit } from './payload-audit.ts';
import { readingOperations } from './reading.ts';
import { REJECTION_COUNTS } from './rejection-counts.ts';
import type { RunningParts } from './running.ts';
import { runningOperations } from './running.ts';
import { SCHEMAS } from './schemas.ts';
import type { UiAccess, UiRequest } from './ui-access.ts';
import { uiActor } from './ui-access.ts';
import { uiOperations } from './ui-operations.ts';

export type AdminServer = {
  /** Rejects when the address cannot be bound. */
  listen(config: Listening, metrics: Metrics): Promise<void>;
  url(): string | undefined;
  /** Waits for requests in flight until the deadline, then closes their connections. */
  close(deadline: AbortSignal): Promise<void>;
};

type Listening = {
  readonly endpoint: string;
  readonly tls?: ServerTls | undefined;
  /** Further names that a `Host` header may have. */
  readonly allowed_hosts: readonly string[];
  /** CIDR blocks of the proxies whose headers name the client. */
  readonly trusted_proxies: readonly string[];
  /** Whether they begin each connection with a header of the PROXY protocol. */
  readonly proxy_protocol: boolean;
};

export type ServerParts = {
  readonly store: Store;
  readonly access: AdminAccess;
  readonly ui: UiAccess;
  readonly pages: Pages;
  readonly running: RunningParts;
  readonly health: HealthSource;
  readonly reads: ProjectReads;
  readonly audit: PayloadAudit;
  readonly logger: Logger;
  readonly clock: Clock;
};

/** Longest body. */
const MAX_BODY_BYTES = 64 * 1024;
const MAX_HEADER_BYTES = 16_384;
const BOUNDS = { max: 256, maxPerAddress: 64, isForOperators: true };
/** Longest head of a request, and interval of its check. Milliseconds. */
const HEAD_MS = 2_000;
const CHECK_MS = 500;
/** Closes connections of clients that do not read their answer. */
const IDLE_MS = 60_000;

/** Headers that keep a browser from running, framing, sniffing or caching the answers. */
const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;

export async function createServer(parts: ServerParts): Promise<AdminServer> {
  const app = await createApp(parts);
  const connections = trackConnections(app.server);
  let unsecure = (): void => {};
  let scheme = 'http';
  let clientOf = clientAddresses([]);
  let proxies: ProxyGate | undefined;
  const addressOf = ({ ip, raw }: FastifyRequest): string => {
    return plainAddress(clientOf(proxies?.clientOf(raw.socket) ?? ip, headersOf(raw)));
  };
  let refusalOf = ownHostCheck('', []);
  app.addHook('onRequest', async ({ headers, raw }) => {
    if (hasManyHosts(raw)) {
      throw new ApiError('invalid_request', 'The request has more than one Host header.');
    }
    const refusal = refusalOf(headers);
    if (refusal === undefined) return;
    const code = refusal.header === 'host' ? 'misdirected' : 'foreign_site';
    throw new ApiError(code, refusal.reason);
  });
  const managing = [
    ...OPERATIONS,
    ...ERASURE_OPERATIONS,
    REJECTION_COUNTS,
    ...readingOperations(parts.reads),
    ...runningOperations(parts.running),
    ...uiOperations(parts.ui, () => urlOf(app, scheme)),
  ];
  const served = [...managing, documentOperation(managing)];
  const exchangeOf = exchanges(parts.clock, addressOf, () => connections.isDraining);
  for (const each of served) addOperation(app, each, parts, { addressOf, exchangeOf });
  servePages(app, parts.pages);
  app.setNotFoundHandler((request) => {
    throw nothingServed(request, served);
  });
  return {
    async listen(config, metrics) {
      const { endpoint, tls, allowed_hosts, trusted_proxies } = config;
      clientOf = clientAddresses(trusted_proxies);
      const { clock, logger } = parts;
      proxies = new ProxyGate({ clock, logger, endpoint }, proxySettings(config));
      refusalOf = ownHostCheck(parseEndpoint(endpoint)?.host ?? '', allowed_hosts);
      scheme = tls === undefined ? 'http' : 'https';
      unsecure = await secureHttp(app.server, tls, { clock, logger, metrics, endpoint });
      boundConnections(app.server, BOUNDS, proxies, clock);
      await listen(app, endpoint);
    },
    url: () => urlOf(app, scheme),
    async close(deadline) {
      proxies?.close();
      unsecure();
      const closed = app.close();
      connections.drain();
      if (deadline.aborted) connections.cut();
      deadline.addEventListener('abort', connections.cut, { once: true });
      await closed;
      deadline.removeEventListener('abort', connections.cut);
    },
  };
}

const NO_COMPILERS = { buildValidator: noCompiler, buildSerializer: noCompiler };

function noCompiler(): never {
  throw new Error('Routes have no schemas of fastify');
}

/** Loads fastify on demand: most configurations have no admin API. */
async function createApp({ logger, pages }: ServerParts): Promise<FastifyInstance> {
  const { fastify } = await import('fastify');
  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const failure = apiErrorOf(error);
    if (failure.code === 'unavailable') {
      const { method, routeOptions } = request;
      const fields = { err: failure.cause ?? failure, method, path: routeOptions.url };
      logger.error(fields, 'Admin request failed');
    }
    const { status, code, message, headers, position } = failure;
    reply
      .code(status)
      .headers({ ...HEADERS, ...headers })
      .send({ code, message, ...(position === undefined ? {} : { position }) });
  };
  const app = fastify({
    bodyLimit: MAX_BODY_BYTES,
    routerOptions: { maxParamLength: MAX_ID_BYTES },
    requestTimeout: 30_000,
    connectionTimeout: IDLE_MS,
    keepAliveTimeout: 60_000,
    forceCloseConnections: false,
    // The operations have schemas of their own, and the defaults load Ajv.
    schemaController: { compilersFactory: NO_COMPILERS },
    return503OnClosing: false,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEAD_MS,
      connectionsCheckingInterval: CHECK_MS,
    },
    frameworkErrors: (error, request, reply) => {
      if (!sendUnknownPage(pages, request, reply)) answer(error, request, reply);
    },
    clientErrorHandler: damageAnswer(HEADERS),
  });
  app.setErrorHandler(answer);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (_request: FastifyRequest, bytes: Buffer) => parseBody(bytes),
  );
  return app;
}

type Requests = {
  addressOf(request: FastifyRequest): string;
  exchangeOf(request: FastifyRequest, response: ServerResponse): Exchange;
};

function addOperation(
  app: FastifyInstance,
  each: Operation,
  parts: ServerParts,
  { addressOf, exchangeOf }: Requests,
): void {
  const clientOf = (request: FastifyRequest): UiRequest => ({
    method: request.method,
    headers: request.headers,
    address: addressOf(request),
  });
  const identities = new WeakMap<FastifyRequest, Identity>();
  app.route({
    method: each.method,
    url: each.path,
    // The credential is checked before the body is read.
    async onRequest(request) {
      request.params = idsOf(request.params as Readonly<Record<string, string>>);
      if (each.isOpen !== true) {
        identities.set(request, await identityOf(request, clientOf(request), parts));
      }
      checkHead(request, each);
    },
    async handler(request, reply) {
      const params = request.params as Readonly<Record<string, string>>;
      const query = parseWith(each.query, request.query, 'query');
      const body = each.body && parseWith(each.body, bodyOf(request, each), 'body');
      const { actor, session } = identities.get(request) ?? ANYBODY;
      const client = clientOf(request);
      const by = { actor, address: client.address };
      const takeOver = (): Exchange => {
        reply.hijack();
        for (const [name, value] of Object.entries(HEADERS)) reply.raw.setHeader(name, value);
        // A client that has left closes nothing any more.
        if (session !== undefined && !reply.raw.destroyed) {
          reply.raw.once(
            'close',
            parts.ui.watch(client, () => reply.raw.destroy()),
          );
        }
        return exchangeOf(request, reply.raw);
      };
      const { id = '' } = params;
      const answer = await each.run(
        { id, params, query, body, session, client, takeOver },
        { ...parts, by },
      );
      if (answer === ANSWERED) return reply;
      reply.code(each.status).headers({ ...HEADERS, ...answer.headers });
      return reply.send(answer.body);
    },
  });
}

function idsOf(params: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(params).map(([name, text]) => [name, idOfSegment(text)]),
  );
}

type Identity = { readonly actor: string; readonly session?: UiSession };
const ANYBODY: Identity = { actor: 'anybody' };

/** Throws an `ApiError` for a request without a valid credential. A token comes before a cookie. */
async function identityOf(
  { raw }: FastifyRequest,
  client: UiRequest,
  { access, ui }: ServerParts,
): Promise<Identity> {
  const authorization = raw.headersDistinct.authorization ?? [];
  const session = authorization.length === 0 ? await ui.sessionOf(client) : undefined;
  if (session !== undefined) return { actor: uiActor(session.id), session };
  return { actor: access.check(authorization, client.address) };
}

/** The client's address; an IPv4 address has the same form on an IPv4 and an IPv6 listener. */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/, '');
}

function checkHead({ headers, params }: FastifyRequest, { body }: Operation): void {
  if ((params as { id?: string }).id === '') {
    throw new ApiError('not_found', 'The path does not exist.');
  }
  const declared = headers['content-length'] ?? '0';
  const hasBody = headers['transfer-encoding'] !== undefined || declared !== '0';
  if (hasBody && body === undefined) {
    throw new ApiError('invalid_request', 'The request must not have a body.');
  }
  const encoding = headers['content-encoding'] ?? 'identity';
  if (hasBody && encoding.trim().toLowerCase() !== 'identity') {
    throw new ApiError('unsupported_encoding', 'The body must not be compressed.');
  }
  // A content type without a body is harmless.
  if (!hasBody) delete headers['content-type'];
}

function bodyOf(request: FastifyRequest, { bodyIsOptional }: Operation): unknown {
  if (request.body !== undefined) return request.body;
  if (bodyIsOptional === true) return {};
  throw new ApiError('invalid_json', 'The request needs a JSON body.');
}

/** The refusal of an unknown path, or of a known path with another method. */
function nothingServed(request: FastifyRequest, served: readonly Operation[]): ApiError {
  const path = parseTarget(request.raw.url ?? '')?.path ?? '';
  const segments = path.split('/');
  const methods = served
    .filter((each) => matchPath(compilePath(each.path), path, segments) !== undefined)
    .map(({ method }) => method as string);
  if (methods.includes('GET')) methods.push('HEAD');
  if (methods.length === 0 || methods.includes(request.method)) {
    return new ApiError('not_found', 'The path does not exist.');
  }
  // A path may match the pattern of another one: `/traces/stream` is also a trace.
  const allow = [...new Set(methods)].sort().join(', ');
  return new ApiError('method_not_allowed', `The path allows ${allow}.`, { allow });
}

/** The document of the given operations, and of itself. */
function documentOperation(operations: readonly Operation[]): Operation {
  let text: object | undefined;
  const self: Operation = operation({
    id: 'getDocument',
    method: 'GET',
    path: '/api/v1/openapi.json',
    tag: 'service',
    summary: 'Get this document',
    isOpen: true,
    usesStore: false,
    status: 200,
    answer: SCHEMAS.document,
    async run() {
      text ??= openApiDocument([...operations, self]);
      return { body: text };
    },
  });
  return self;
}

async function listen(app: FastifyInstance, endpoint: string): Promise<void> {
  const { host, port } = parseEndpoint(endpoint) ?? { host: '127.0.0.1', port: 4319 };
  try {
    await app.listen({ host, port });
  } catch (error) {
    await app.close();
    throw new Error(`admin cannot listen on ${endpoint}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

function urlOf(app: FastifyInstance, scheme: string): string | undefined {
  return app.server.listening ? `${scheme}://${boundAddress(app.server)}` : undefined;
}
