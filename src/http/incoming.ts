import { readBody } from './body.ts';
import type { Exchange, RenderRefusal } from './exchange.ts';
import { answer } from './exchange.ts';
import type { Incoming, Protocol } from './ingest.ts';

/** A protocol whose refusals have a shape of their own. */
export type HttpProtocol = Protocol & { readonly renderRefusal: RenderRefusal };

/** A request over HTTP on its way to be ingested. */
export function incomingOf(exchange: Exchange, renderRefusal: RenderRefusal): Incoming {
  const { head, params } = exchange;
  return {
    head,
    params,
    async read(reservation, encoding) {
      return { body: await readBody(exchange, reservation), encoding };
    },
    answer: (reply) => answer(exchange, reply),
    refuse: (refusal) => answer(exchange, renderRefusal(refusal, head)),
  };
}
