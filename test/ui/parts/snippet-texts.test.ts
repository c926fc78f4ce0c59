import t from 'tap';
import { addressesOf, CLIENTS, snippetOf } from '../../../ui/parts/snippet-texts.ts';

const ROUTES = {
  native: 'POST /api/v1/observations/batch',
  runs: 'POST /api/v1/runs/batch',
  otlp: 'POST /api/public/otel/v1/traces',
};
const endpoint = (url: string, ...routes: string[]) => ({ url, routes });
const ALL = addressesOf([
  endpoint('grpc://127.0.0.1:2', 'POST /api/public/otel/v1/traces'),
  endpoint('http://127.0.0.1:1', ...Object.values(ROUTES)),
]);

t.test('each client has a snippet with the address, the key and nothing undefined', async (t) => {
  for (const client of CLIENTS) {
    const snippet = snippetOf(client, { addresses: ALL, key: 'ws_KEY', projectId: 'proj_1' });
    t.match(snippet?.text, 'http://127.0.0.1:1', client);
    t.match(snippet?.text, 'ws_KEY', client);
    t.notMatch(snippet?.text, 'undefined', client);
  }
});

t.test('a client whose receiver is absent has no snippet', async (t) => {
  const values = {
    addresses: addressesOf([endpoint('http://127.0.0.1:1', ROUTES.otlp)]),
    key: 'k',
    projectId: 'p',
  };
  const served = CLIENTS.filter((client) => snippetOf(client, values) !== undefined);
  t.strictSame(served, ['OpenTelemetry SDK', 'Collector', 'Langfuse']);
});

t.test('the address of gRPC is in no snippet', async (t) => {
  t.equal(addressesOf([endpoint('grpc://127.0.0.1:2', ROUTES.otlp)]).otlp, undefined);
});

t.test('the snippet of Langfuse keeps images in the messages', async (t) => {
  const addresses = addressesOf([endpoint('http://127.0.0.1:1', ROUTES.otlp)]);
  const snippet = snippetOf('Langfuse', { addresses, key: 'k', projectId: 'p' });
  // By default, the SDKs cut them out and upload them to a media store, which is not served.
  t.match(snippet?.text, /^export LANGFUSE_MEDIA_UPLOAD_ENABLED=false$/m);
});
