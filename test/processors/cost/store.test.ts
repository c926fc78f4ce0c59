import t, { type Test } from 'tap';
import { config } from '../../../processors/cost/config.ts';
import { createProcessor } from '../../../processors/cost/processor.ts';
import { offer } from '../../../src/component/capability.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import { aTenant, nativeBatch, rawBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

const P = aTenant().projectId;
const PRICES = [{ model: 'm', input_mtok: 1, output_mtok: 2 }];
const USAGE = { input_tokens: 1000, output_tokens: 1000 };
const COST = { input: 1e6, output: 2e6, total: 3e6 };

/** A store behind the processor. */
async function rig(t: Test) {
  const { store, close } = await sqlitePlace(t).open();
  t.teardown(close);
  const host = fakeHost({ extensions: { sqlite: [offer(STORE, store)] } });
  const settings = testSettings('processor', 'cost', { host });
  const processor = createProcessor(settings, config.parse({ store: 'sqlite', prices: PRICES }));
  await processor.start();
  const write = async (source: SealedBatch): Promise<void> => {
    const batch = { kind: 'observations' as const, source, observations: observe(source) };
    const priced = await processor.process(batch);
    if (priced.kind === 'observations') await store.traces.write(priced);
  };
  return { store, write };
}

async function checkCosts(t: Test, store: Store, id: string): Promise<void> {
  const found = await store.traces.getObservation(P, id, 'trace-1');
  t.same(found?.details?.cost, { ...COST, source: 'computed' });
  t.same((await store.traces.getTrace(P, 'trace-1'))?.cost, COST);
}

t.test(
  'prices a native observation whose start has the model and whose finish the usage',
  async (t) => {
    const ids = { id: 'call', trace_id: 'trace-1', kind: 'generation' };
    const start = { ...ids, operation: 'start', start_time: '2026-01-15T12:00:00Z', model: 'm' };
    const finish = { ...ids, operation: 'finish', end_time: '2026-01-15T12:00:01Z', usage: USAGE };
    for (const events of [
      [start, finish],
      [finish, start],
    ]) {
      const { store, write } = await rig(t);
      for (const event of events) await write(nativeBatch([event]));
      await checkCosts(t, store, 'call');
    }
  },
);

t.test('prices a run whose post has the model and whose patch the usage', async (t) => {
  const post = {
    ...{ id: 'call', trace_id: 'trace-1', run_type: 'llm', name: 'call', inputs: {} },
    start_time: '2026-01-15T12:00:00Z',
    extra: { metadata: { ls_model_name: 'm' } },
  };
  const patch = {
    ...{ id: 'call', trace_id: 'trace-1', run_type: 'llm' },
    end_time: '2026-01-15T12:00:01Z',
    outputs: { usage_metadata: USAGE },
  };
  const runs = (post: object[], patch: object[]) =>
    rawBatch('runs', Buffer.from(JSON.stringify({ post, patch })), post.length + patch.length);
  for (const batches of [
    [runs([post], [patch])],
    [runs([post], []), runs([], [patch])],
    [runs([], [patch]), runs([post], [])],
  ]) {
    const { store, write } = await rig(t);
    for (const batch of batches) await write(batch);
    await checkCosts(t, store, 'call');
  }
});
