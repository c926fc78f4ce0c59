import type { Cost } from '../model/details.ts';
import type { TokenUsage } from '../model/observation.ts';
import type { Source } from './rows/observation-row.ts';

/** The part of an observation that its price depends on. */
export type PricedCall = {
  readonly model: string;
  readonly provider: string | undefined;
  /** The counts that the client sent. */
  readonly usage: TokenUsage;
  readonly source: Source;
  /** Milliseconds since the epoch: the start of the call, else its arrival. */
  readonly at: number;
};

/** The cost, `unknown_price`, or undefined if the usage has no counts that have a price. */
export type Priced = Cost | 'unknown_price' | undefined;

/** Prices a call. The result depends on the call only. */
export type Pricing = (call: PricedCall) => Priced;

/** The module of a pricing and its options, which can be cloned. Threads load it by its URL: functions cannot be sent. */
export type PricingSource = { readonly module: string; readonly options: unknown };

export type PricingModule = { createPricing(options: unknown): Pricing };
