import type { BatchProcessor, Counter, Settings } from '../../src/component/component.ts';
import type { ObservationBatch } from '../../src/model/batch.ts';
import { sourceOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import type { Priced } from '../../src/store/pricing.ts';
import { STORE } from '../../src/store/store.ts';
import { threadFile } from '../../src/thread/thread.ts';
import type { CostConfig } from './config.ts';
import { pricingOptions } from './config.ts';
import { createPricing } from './prices.ts';

/** The module that makes the pricing, for the store. */
const PRICES = threadFile(import.meta.url, 'prices').href;

/**
 * Adds the cost of model calls that have usage and no cost. A cost that the client sent is not changed.
 *
 *   observation ─▶ model and usage, no cost? ─▶ pricing ─┬─ cost ───────▶ details.cost, `computed`
 *                                                        └─ no price ───▶ counted by model
 */
export function createProcessor(
  settings: Settings,
  config: CostConfig,
): BatchProcessor<'observations'> {
  const pricing = createPricing(config);
  const unpriced = unpricedCounter(settings, config.max_unpriced_models);

  function priced(observation: Observation, { source }: ObservationBatch): Priced {
    const { model, usage, details, startTime } = observation;
    if (model === null || usage === null || details?.cost !== undefined) return undefined;
    return pricing({
      model,
      usage,
      provider: details?.provider,
      source: sourceOf(source.format),
      at: startTime?.ms ?? source.receivedAt,
    });
  }

  return {
    async start() {
      if (config.store === undefined) return;
      const { costs } = settings.host.extension(config.store, STORE);
      await costs.usePricing({ module: PRICES, options: pricingOptions.parse(config) });
    },
    async shutdown() {},
    process(batch, again = false) {
      const observations = batch.observations.map((observation) => {
        const cost = priced(observation, batch);
        if (cost === undefined) return observation;
        if (cost !== 'unknown_price')
          return { ...observation, details: { ...observation.details, cost } };
        if (!again) unpriced.add(1, observation.model ?? '');
        return observation;
      });
      return { ...batch, observations };
    },
  };
}

/** A label is the beginning of the model's name. */
const LABEL_LENGTH = 128;

/** Counts by the names of the first models without a price; further models share a label. */
function unpricedCounter({ metrics }: Settings, maxModels: number) {
  const counter: Counter = metrics.counter(
    'tracectl_cost_unpriced_observations_total',
    'Observations with a model and usage whose price is unknown.',
  );
  const models = new Set<string>();
  return {
    add(amount: number, name: string): void {
      const model = name.slice(0, LABEL_LENGTH);
      if (models.size < maxModels) models.add(model);
      counter.add(amount, { model: models.has(model) ? model : 'other' });
    },
  };
}
