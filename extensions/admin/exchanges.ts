import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { Clock } from '../../src/component/component.ts';
import type { Exchange } from '../../src/http/exchange.ts';
import { parseTarget } from '../../src/http/routes.ts';

/** Requests that src/read answers have no body. */
const NO_BODY = { bytesPerSecond: 0, period: 60_000 };

/** Makes the exchange of a request, which src/read answers. */
export function exchanges(
  clock: Clock,
  addressOf: (request: FastifyRequest) => string,
  stopping: () => boolean,
): (request: FastifyRequest, response: ServerResponse) => Exchange {
  return (request, response) => {
    const { path, query } = parseTarget(request.raw.url ?? '') ?? { path: '', query: '' };
    return {
      head: {
        transport: 'http',
        method: request.method,
        path,
        headers: headersOf(request.raw),
        remoteAddress: addressOf(request),
        receivedAt: clock.now(),
        declaredBytes: 0,
      },
      params: request.params as Readonly<Record<string, string>>,
      query,
      request: request.raw,
      response,
      expectsContinue: false,
      stopping,
      clock,
      bodyRate: NO_BODY,
    };
  };
}

/** The values of each header of a request, by its lower-case name. */
export function headersOf({ headersDistinct }: IncomingMessage): Map<string, readonly string[]> {
  const named = Object.entries(headersDistinct);
  return new Map(named.map(([name, values]) => [name, values ?? []]));
}
