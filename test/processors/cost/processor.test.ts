import t from 'tap';
import { config } from '../../../processors/cost/config.ts';
import { createProcessor } from '../../../processors/cost/processor.ts';
import type { ObservationBatch, SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { nativeBatch, nativeEvent, rawBatch } from '../../helper/batches.ts';
import { testSettings } from '../../helper/settings.ts';

const UNPRICED = 'tracectl_cost_unpriced_observations_total';
const PRICES = [{ model: 'm', input_mtok: 1, output_mtok: 2 }];
const USAGE = { input_tokens: 1000, output_tokens: 1000 };
const COMPUTED = { input: 1e6, output: 2e6, total: 3e6, source: 'computed' };

function rig(fields: object = {}) {
  const settings = testSettings('processor', 'cost');
  const processor = createProcessor(settings, config.parse({ prices: PRICES, ...fields }));
  return {
    metrics: settings.metrics,
    async costs(source: SealedBatch, again = false) {
      const batch: ObservationBatch = {
        kind: 'observations',
        source,
        observations: observe(source),
      };
      const result = (await processor.process(batch, again)) as ObservationBatch;
      t.equal(result.source, source);
      return result.observations.map(({ details }) => details?.cost);
    },
  };
}

t.test('adds the cost of an event with model and usage', async (t) => {
  const events = [
    nativeEvent({ model: 'm', usage: USAGE }),
    nativeEvent({ model: 'm' }),
    nativeEvent({ usage: USAGE }),
    nativeEvent({ model: 'm', usage: {} }),
  ];
  t.same(await rig().costs(nativeBatch(events)), [COMPUTED, undefined, undefined, undefined]);
});

t.test('keeps other details, and a cost that the client sent', async (t) => {
  const sent = nativeEvent({ model: 'm', usage: USAGE, cost: { total: 0.5 }, tags: ['a'] });
  t.match(await rig().costs(nativeBatch([sent])), [{ total: 5e8, source: 'sent' }]);
  const { costs, metrics } = rig();
  const unknown = nativeEvent({ model: 'unknown', usage: USAGE, cost: 1 });
  t.match(await costs(nativeBatch([unknown])), [{ total: 1e9, source: 'sent' }]);
  t.equal(metrics.value(UNPRICED, { model: 'unknown' }), 0);
});

t.test('prices a run by the model of its metadata and the usage of its outputs', async (t) => {
  const run = {
    id: 'run-1',
    run_type: 'llm',
    extra: { metadata: { ls_model_name: 'm' } },
    outputs: { usage_metadata: USAGE },
  };
  const body = Buffer.from(JSON.stringify({ post: [run], patch: [] }));
  t.same(await rig().costs(rawBatch('runs', body, 1)), [COMPUTED]);
});

t.test('prices a call without a start at its arrival', async (t) => {
  const { start_time: _start, ...event } = nativeEvent({ model: 'm', usage: USAGE });
  const source = nativeBatch([event]);
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 10);
  const dated = (from: string) => ({ prices: [{ model: 'm', input_mtok: 1, from }] });
  t.match(await rig(dated(day(source.receivedAt))).costs(source), [{ source: 'computed' }]);
  t.same(await rig(dated(day(source.receivedAt + 86_400_000))).costs(source), [undefined]);
});

t.test(
  'counts unknown models by a bounded number of names, and repeated batches once',
  async (t) => {
    const { costs, metrics } = rig({ max_unpriced_models: 2 });
    const models = ['a-1', 'a-2', 'a-3', 'a-1', 'x'.repeat(500)];
    const source = nativeBatch(models.map((model) => nativeEvent({ model, usage: USAGE })));
    await costs(source);
    await costs(source, true);
    const counts = ['a-1', 'a-2', 'a-3', 'other'].map((model) =>
      metrics.value(UNPRICED, { model }),
    );
    t.same(counts, [2, 1, 0, 2]);
    const one = rig({ max_unpriced_models: 1 });
    await one.costs(nativeBatch([nativeEvent({ model: 'y'.repeat(200), usage: USAGE })]));
    t.equal(one.metrics.value(UNPRICED, { model: 'y'.repeat(128) }), 1);
  },
);
