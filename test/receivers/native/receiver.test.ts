import t from 'tap';
import { config as nativeConfig } from '../../../receivers/native/config.ts';
import { factory as native } from '../../../receivers/native/factory.ts';
import { createReceiver as createNativeReceiver } from '../../../receivers/native/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { NO_DEADLINE, testListeners } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

t.test('accepts events at its path', async (t) => {
  const listeners = testListeners();
  const host = fakeHost({ services: [offer(LISTENERS, listeners)] });
  const sink = createSink();
  const receiver = createNativeReceiver(
    testSettings('receiver', 'native', { host }),
    nativeConfig.parse({ endpoint: '127.0.0.1:0', project: 'proj_local' }),
    sinkPipeline(sink),
  );
  await receiver.start();
  t.teardown(() => listeners.close());
  const [served] = listeners.served();
  t.strictSame(served?.routes, [
    'POST /api/v1/observations/batch',
    'GET /api/v1/traces',
    'GET /api/v1/traces/stream',
    'GET /api/v1/traces/:trace_id',
    'GET /api/v1/traces/:trace_id/otlp',
    'GET /api/v1/traces/:trace_id/scores',
    'POST /api/v1/traces/:trace_id/scores',
    'GET /api/v1/sessions',
    'GET /api/v1/sessions/:session_id',
    'GET /api/v1/users',
    'GET /api/v1/users/:user_id',
    'GET /api/v1/stats',
    'GET /api/v1/facets',
    'GET /api/v1/search',
    'GET /api/v1/observations/:id',
    'GET /api/v1/attachments/:sha256',
    'GET /api/v1/raw-events/:raw_event_id',
    'GET /api/v1/export',
    'GET /api/v1/me',
  ]);
  const answered = await fetch(`${served?.url}/api/v1/observations/batch`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: nativeBatch(2).body,
  });
  t.equal(answered.status, 202);
  t.match(sink.batches, [
    { format: 'native', requestItems: 2, tenant: { projectId: 'proj_local' } },
  ]);
  const removed = await fetch(`${served?.url}/api/v1/observations/batch`, { method: 'DELETE' });
  t.equal(removed.status, 405);
  t.match(removed.headers.get('allow'), 'POST');
  await receiver.shutdown(NO_DEADLINE);
  t.strictSame(listeners.served(), []);
});

t.test('shuts down without a start', async () => {
  const receiver = createNativeReceiver(
    testSettings('receiver', 'native'),
    nativeConfig.parse({}),
    sinkPipeline(createSink()),
  );
  await receiver.shutdown(NO_DEADLINE);
});

t.test('has a default for every field', async (t) => {
  t.match(native.config.parse({}), {
    endpoint: '127.0.0.1:4318',
    read_header_timeout: 10_000,
    read_timeout: 1_800_000,
    body_min_rate: 16_384,
    body_rate_period: 5_000,
  });
  t.notOk(native.config.safeParse({ endpoint: '4318' }).success);
  t.notOk(native.config.safeParse({ port: 4318 }).success);
});
