import { renderEnvelopeRefusal } from '../../src/http/envelope.ts';
import { answer } from '../../src/http/exchange.ts';
import type { Route } from '../../src/http/routes.ts';
import { Refusal } from '../../src/model/errors.ts';

/**
 * The answer to the first request of LangSmith's clients, which has no key. Without `use_multipart_endpoint: false`
 * they send multipart bodies; the sizes keep their batches well within the limits of this receiver.
 */
const INFO = JSON.stringify({
  version: '0.1.0',
  license_expiration_time: null,
  batch_ingest_config: {
    use_multipart_endpoint: false,
    scale_up_qsize_trigger: 1000,
    scale_up_nthreads_limit: 16,
    scale_down_nempty_trigger: 4,
    size_limit: 100,
    size_limit_bytes: 20_971_520,
  },
  instance_flags: {},
});

export const infoRoute: Route = {
  method: 'GET',
  path: '/api/v1/info',
  renderRefusal: renderEnvelopeRefusal,
  handler: (exchange) =>
    answer(exchange, { status: 200, contentType: 'application/json', body: INFO }),
};

/**
 * Multipart bodies are not served. Clients that send them nevertheless need a 404: then they switch to `/runs/batch`,
 * while on any other refusal they discard the data.
 */
export const multipartRoute: Route = {
  method: 'POST',
  path: '/api/v1/runs/multipart',
  hidden: true,
  renderRefusal: renderEnvelopeRefusal,
  handler(exchange) {
    const refusal = new Refusal('not_found', 'Send runs to /api/v1/runs/batch instead.');
    answer(exchange, renderEnvelopeRefusal(refusal));
  },
};
