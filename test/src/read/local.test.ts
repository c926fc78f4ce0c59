import t from 'tap';
import { createScanner } from '../../../src/http/scan-pool.ts';
import { readLocally } from '../../../src/read/local.ts';
import type { ReadLimits } from '../../../src/read/reads.ts';
import { projectReads } from '../../../src/read/routes.ts';
import type { Store } from '../../../src/store/store.ts';
import { aTenant } from '../../helper/batches.ts';
import { anObservation, aTrace, fakeTraces, type HeldTraces } from '../../helper/fake-traces.ts';
import { testReadsOwner } from '../../helper/http.ts';
import { recordingLogger } from '../../helper/settings.ts';

/** Runs reading requests over a store that holds these traces. */
function local(held: HeldTraces, limits: Partial<ReadLimits> = {}) {
  const traces = fakeTraces(() => 'proj_test', held);
  const store = { traces } as unknown as Store;
  const reads = testReadsOwner(limits);
  const requests = projectReads({ reads, scanner: createScanner(), logger: recordingLogger() });
  return {
    reads,
    get: (target: string) => readLocally(requests, { tenant: aTenant(), store }, target),
  };
}

t.test('a reading request of this process has the answer of a listener', async (t) => {
  const { get, reads } = local({
    traces: [aTrace({ id: 'a/b' })],
    observations: [anObservation({ traceId: 'a/b', name: 'ü日本' })],
  });
  const shown = await get('/traces/a%2Fb');
  t.equal(shown.status, 200);
  t.match(JSON.parse(shown.body), { trace: { id: 'a/b' }, observations: [{ name: 'ü日本' }] });
  t.equal(reads.heldBytes, 0, 'its memory is returned');
});

t.test('a trace whose id is the path of the stream is readable', async (t) => {
  const { get } = local({ traces: [aTrace({ id: 'stream' })] });
  t.match(JSON.parse((await get('/traces/stream?payloads=true')).body), {
    trace: { id: 'stream' },
  });
  t.equal((await get('/traces/stream?q=x')).status, 400, 'the parameters are those of a trace');
});

t.test('an answer of several chunks is whole', async (t) => {
  const observations = Array.from({ length: 1000 }, (_, i) => anObservation({ id: `o-${i}` }));
  const { get } = local({ traces: [aTrace()], observations });
  const { body } = await get('/traces/trace-1');
  t.ok(body.length > 100_000);
  t.equal(JSON.parse(body).observations.length, 1000);
});

t.test('errors are a code and a message', async (t) => {
  const { get } = local({ traces: [aTrace()] });
  for (const [target, status, code] of [
    ['/traces/none', 404, 'not_found'],
    ['/nothing', 404, 'not_found'],
    ['/traces/%zz', 404, 'not_found'],
    ['/traces?limit=0', 400, 'invalid_request'],
    ['', 404, 'not_found'],
  ] as const) {
    const answer = await get(target);
    const body = JSON.parse(answer.body);
    t.same([answer.status, body.code, Object.keys(body)], [status, code, ['code', 'message']]);
  }
  const full = local({ traces: [aTrace()] }, { reads_per_key: 0 });
  t.match(await full.get('/traces'), { status: 429, body: /rate_limited/ });
});
