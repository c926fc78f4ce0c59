import t from 'tap';
import { notServed, wrongMethodHint } from '../../../src/http/near-misses.ts';

const SERVED = [
  '/v1/traces',
  '/api/public/otel/v1/traces',
  '/api/v1/runs/batch',
  '/api/public/scores',
  '/api/v1/traces',
];
const isServed = (path: string) => SERVED.includes(path);

t.test('names the right URL or setting for a path that is nearly right', async (t) => {
  for (const [path, message] of [
    ['/v1/traces/v1/traces', /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT/],
    ['/v1/traces/v1/v1/traces', /signal is twice.*OTEL_EXPORTER_OTLP_ENDPOINT/],
    ['/v1/logs/v1/logs', /signal is twice/],
    ['/api/public/otel/v1/traces/v1/traces/', /OTEL_EXPORTER_OTLP_ENDPOINT/],
    ['/otlp/v1/traces', /accepted at \/v1\/traces.*OTEL_EXPORTER_OTLP_ENDPOINT/],
    ['/v1/trace', /accepted at \/v1\/traces/],
    ['/traces', /accepted at \/v1\/traces/],
    ['/api/v1/api/v1/runs/batch', /Remove \/api\/v1 from the base URL.*LANGSMITH_ENDPOINT/],
    ['/api/v1/api/v1/otel/v1/traces', /LANGSMITH_ENDPOINT/],
    ['/api/v1/api/v1', /Remove \/api\/v1/],
    ['/api/v1//api/v1/info', /Remove \/api\/v1/],
    ['/v1/info', /LANGSMITH_ENDPOINT/],
    ['/v1/runs/multipart', /LANGSMITH_ENDPOINT/],
    ['/api/runs/batch', /LANGSMITH_ENDPOINT/],
    ['/otel/runs/batch', /LANGSMITH_ENDPOINT/],
    ['/api/public/otel/runs/batch/', /LANGSMITH_ENDPOINT/],
    ['/api/v1/api/public/otel/v1/traces', /LANGFUSE_BASE_URL/],
    ['/api/public/api/public/projects', /LANGFUSE_BASE_URL/],
    ['/v1/traces/api/public/otel/v1/traces', /LANGFUSE_BASE_URL/],
    [
      '/api/public/otel/api/public/otel/v1/traces',
      /ends in \/api\/public\/otel.*LANGFUSE_BASE_URL/,
    ],
    ['/api/public/otel', /accepted at \/v1\/traces/],
    ['/api/public/otel/', /OTEL_EXPORTER_OTLP_TRACES_ENDPOINT/],
    ['/api/public/otel/v1', /accepted at \/v1\/traces/],
    ['/v1', /accepted at \/v1\/traces/],
    ['/api/v1/otel', /accepted at \/v1\/traces/],
    ['/api/v1/v1/traces', /Remove \/api\/v1 from OTEL_EXPORTER_OTLP_ENDPOINT/],
    ['/api/public/v2/prompts/greeting', /Prompts are not managed here/],
    [
      '/api/public/media',
      /Media of Langfuse are not stored here: set LANGFUSE_MEDIA_UPLOAD_ENABLED/,
    ],
    ['/api/public/media/abc', /Media of Langfuse/],
    ['/api/public/traces/t', /Traces are read at \/api\/v1\/traces/],
    ['/api/public/v2/observations', /at \/api\/v1\/traces\/ID\?payloads=true/],
    ['/api/public/v3/scores', /scores at \/api\/v1\/traces\/ID\/scores/],
    ['/api/public/sessions/s', /sessions at \/api\/v1\/sessions/],
    ['/api/public/metrics', /statistics at \/api\/v1\/stats/],
    [
      '/api/public/v2/datasets/d',
      /Datasets of Langfuse are not served here.*a list in the program/,
    ],
    ['/api/public/dataset-items', /Datasets of Langfuse/],
    ['/project/p/traces/t', /web UI .* \/traces\/ID there/],
    ['/api/public', /Langfuse/],
    ['/api/v1/runs/a/b/c', /LangSmith/],
    ['/sessions/x/y', /with and without \/api\/v1/],
    ['/runs/a/share', /Runs of LangSmith are not shared here/],
    ['/datasets', /Datasets/],
    ['/api/v1/examples/1', /Datasets/],
    ['/settings', /Datasets/],
    ['/api/v2/runs/1/share', /second version of the API of LangSmith/],
    ['/api/v2/threads/1/stats', /Sums over a thread are read at \/api\/v1\/sessions\/ID/],
    ['/v2/datasets', /client\.traces\.query and client\.traces\.list_runs/],
    ['/', /\/v1\/traces/],
    ['//', /\/v1\/traces/],
    ['/api/v1/traces/', /without the slash/],
    ['/api/v1/traces///', /without the slash/],
  ] as const) {
    t.match(notServed(path, isServed), message, path);
  }
});

t.test('says nothing of what the listener does not serve, and of other paths', async (t) => {
  for (const path of [
    ...['/x', '/api', '/api/v2/runs', '/api/v2/info', '/v1/tracesx', '/apix/public', '/datasetsx'],
    `/${'/'.repeat(16_000)}x`,
    `/${'/v1/traces/'.repeat(1_500)}x`,
  ]) {
    t.equal(notServed(path, isServed), 'Nothing is served at this path.', path.slice(0, 20));
  }
  for (const path of ['/api/public/otel', '/api/public/traces', '/datasets', '/runs/a/b']) {
    t.equal(
      notServed(path, () => false),
      'Nothing is served at this path.',
      path,
    );
  }
});

t.test('a message repeats nothing of the path', async (t) => {
  t.notMatch(notServed('/api/public/<script>', isServed), 'script');
});

t.test('names the request to send to a client whose method is not served', async (t) => {
  t.match(wrongMethodHint('POST', '/api/v1/traces'), /Spans are accepted at \/v1\/traces/);
  for (const path of ['/runs/stats', '/api/v1/runs/stats']) {
    t.match(wrongMethodHint('POST', path), /GET \/api\/v1\/stats/, path);
  }
  for (const base of ['', '/api/v1']) {
    t.match(wrongMethodHint('POST', `${base}/sessions`), /tracectl projects create/, base);
    t.match(wrongMethodHint('POST', `${base}/sessions`), /Experiments of `evaluate`/, base);
    t.match(wrongMethodHint('POST', `${base}/feedback/tokens`), /are not served here/, base);
    for (const method of ['DELETE', 'PATCH']) {
      t.match(wrongMethodHint(method, `${base}/sessions/x`), /tracectl projects/, method);
      t.equal(wrongMethodHint(method, `${base}/sessions`), '');
    }
  }
  for (const path of ['/api/public/scores', '/api/public/scores/s']) {
    t.match(wrongMethodHint('GET', path), / read at \/api\/v1\/traces\/ID\/scores/);
  }
  t.match(wrongMethodHint('POST', '/runs/group'), / client\.threads\.query/);
  t.equal(wrongMethodHint('GET', '/runs/stats'), '');
  t.equal(wrongMethodHint('POST', '/runs/stats/x'), '');
  t.equal(wrongMethodHint('DELETE', '/api/v1/traces'), '');
  t.equal(wrongMethodHint('POST', '/api/v1/users'), '');
});
