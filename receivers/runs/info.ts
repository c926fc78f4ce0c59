import { renderEnvelopeRefusal } from '../../src/http/envelope.ts';
import { answer } from '../../src/http/exchange.ts';
import type { Route } from '../../src/http/routes.ts';

/**
 * The answer to the first request of LangSmith's clients, which has no key. The sizes keep their batches well within the limits of this
 * receiver. From version 0.8.10 on, Python's client sends the feedback on a trace with its runs, and the caller does not wait. Below
 * 0.16.0, clients warn before each use of runs, traces and threads of the second version of the API, which are served.
 */
const INFO = JSON.stringify({
  version: '0.16.0',
  license_expiration_time: null,
  batch_ingest_config: {
    use_multipart_endpoint: true,
    scale_up_qsize_trigger: 1000,
    scale_up_nthreads_limit: 16,
    scale_down_nempty_trigger: 4,
    size_limit: 100,
    size_limit_bytes: 20_971_520,
  },
  instance_flags: { gzip_body_enabled: true, zstd_compression_enabled: true },
});

/** `GET /info`, at the path of LangSmith's API and at that of clients without `/api/v1` in their endpoint. */
export const INFO_ROUTES: readonly Route[] = [
  infoRoute('/api/v1/info'),
  { ...infoRoute('/info'), hidden: true },
];

function infoRoute(path: string): Route {
  return {
    method: 'GET',
    path,
    renderRefusal: renderEnvelopeRefusal,
    handler: (exchange) =>
      answer(exchange, { status: 200, contentType: 'application/json', body: INFO }),
  };
}
