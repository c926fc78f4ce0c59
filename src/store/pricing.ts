import { backoff } from '../component/backoff.ts';
import { pause } from '../component/clock.ts';
import type { Clock } from '../component/component.ts';
import type { Cost } from '../model/details.ts';
import { RetryableError } from '../model/errors.ts';
import type { ObservationSource, TokenUsage } from '../model/observation.ts';
import type { Key, ObservationRow } from './rows/observation-row.ts';
import { pricedRow } from './rows/priced-row.ts';

/** The part of an observation that its price depends on. */
export type PricedCall = {
  readonly model: string;
  readonly provider: string | undefined;
  /** The counts that the client sent. */
  readonly usage: TokenUsage;
  readonly source: ObservationSource;
  /** Milliseconds since the epoch: the start of the call, else its arrival. */
  readonly at: number;
};

/** The cost, `unknown_price`, or undefined if the usage has no counts that have a price. */
export type Priced = Cost | 'unknown_price' | undefined;

/** Prices a call. The result depends on the call only. */
export type Pricing = (call: PricedCall) => Priced;

/** The module of a pricing and its options, which can be cloned. Threads load it by its URL: functions cannot be sent. */
export type PricingSource = { readonly module: string; readonly options: unknown };

type PricingModule = { createPricing(options: unknown): Pricing };

export async function loadPricing({ module, options }: PricingSource): Promise<Pricing> {
  const { createPricing } = (await import(module)) as PricingModule;
  return createPricing(options);
}

/** The current pricing of a store; undefined without the processor `cost`. */
export type StorePrices = { pricing: Pricing | undefined };

/** The traces to price again. Times are milliseconds since the epoch; `to` is exclusive. */
export type PricedRange = {
  readonly projectId: string;
  readonly from: number;
  readonly to: number;
};

/** The place behind the observations that were priced. */
export type PricedPlace = {
  readonly ms: number;
  readonly ns: number;
  readonly trace: number;
  /** The last observation of the trace that was priced; null if all were. */
  readonly key: Key | null;
};

/** One step of pricing again. Amounts are in 10⁻⁹ USD. */
export type PricedStep = {
  /** Observations with a model and usage whose cost no client sent. */
  readonly observations: number;
  readonly changed: number;
  /** Of the changed observations, and without the double counting of nested calls. */
  readonly costBefore: number;
  readonly costAfter: number;
  /** Null if the range is done. */
  readonly next: PricedPlace | null;
};

/** The costs of a store's observations. */
export type CostStore = {
  /** From now on the store prices observations whose model and usage arrive in different events. */
  usePricing(source: PricingSource): Promise<void>;
  /**
   * Prices a bounded number of observations again, in the order of the start of their traces, and summarizes the traces that change.
   * Repeating a step changes nothing. Resolves with null without a pricing.
   */
  priceAgain(
    range: PricedRange,
    after: PricedPlace | null,
    isDryRun: boolean,
  ): Promise<PricedStep | null>;
};

/** A step that fails is tried again for about a minute: a failover takes less, and a recomputation may take hours. */
const RETRIES = 8;
const retryMs = backoff({ first: 500, max: 15_000 });

/** A step of pricing again. Rejects with the failure of the last attempt. */
export async function priceWithRetries(
  costs: CostStore,
  clock: Clock,
  ...args: Parameters<CostStore['priceAgain']>
): Promise<PricedStep | null> {
  for (let failures = 0; ; failures++) {
    try {
      return await costs.priceAgain(...args);
    } catch (error) {
      if (!(error instanceof RetryableError) || failures === RETRIES) throw error;
    }
    await pause(clock, retryMs(failures));
  }
}

/** Observations of one step: a bound on how long it delays writes. */
export const PRICED_ROWS = 500;

/** Adds up a step. */
export class PricedSum {
  observations = 0;
  changed = 0;
  costBefore = 0;
  costAfter = 0;

  /** Prices the rows of a trace; returns the changed ones. */
  add<
    Found extends { readonly row: ObservationRow; readonly state: { readonly createdAt: number } },
  >(found: readonly Found[], pricing: Pricing): Found[] {
    return found.flatMap((one) => {
      const priced = pricedRow(one.row, one.state.createdAt, pricing);
      if (priced === undefined) return [];
      this.observations++;
      if (!priced.isChanged) return [];
      this.changed++;
      this.costBefore += priced.before?.total ?? 0;
      this.costAfter += priced.after?.total ?? 0;
      return [{ ...one, row: priced.row }];
    });
  }

  join({ observations, changed, costBefore, costAfter }: PricedSum): void {
    this.observations += observations;
    this.changed += changed;
    this.costBefore += costBefore;
    this.costAfter += costAfter;
  }

  step(next: PricedPlace | null): PricedStep {
    const { observations, changed, costBefore, costAfter } = this;
    return { observations, changed, costBefore, costAfter, next };
  }
}
