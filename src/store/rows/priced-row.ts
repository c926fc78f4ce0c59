import type { Cost, ObservationDetails } from '../../model/details.ts';
import { detailsOf } from '../../model/details.ts';
import { decodeJsonText } from '../../model/json/decode.ts';
import type { TokenUsage } from '../../model/observation.ts';
import type { Pricing } from '../pricing.ts';
import type { ObservationRow } from './observation-row.ts';
import { detailsFromColumn, ROW, sourceNumberOf, sourceOfNumber } from './observation-row.ts';

/** A row that was priced, and its computed cost before and after. */
export type PricedRow = {
  readonly row: ObservationRow;
  readonly before: Cost | undefined;
  readonly after: Cost | undefined;
  readonly isChanged: boolean;
};

/**
 * Prices a row by its model, usage, provider and start; undefined if it has no model and no usage, or a cost that the client
 * sent. Events may bring the model and the usage separately, so only the merged row has all of them. `createdAt`: the arrival of its
 * first event.
 */
export function pricedRow(
  row: ObservationRow,
  createdAt: number,
  pricing: Pricing,
): PricedRow | undefined {
  const [model, usage] = [row[ROW.MODEL], row[ROW.USAGE]];
  if (model === null || usage === null) return undefined;
  const details = detailsFromColumn(row[ROW.DETAILS]);
  const before = details?.cost;
  if (before?.source === 'sent') return undefined;
  const cost = pricing({
    model,
    usage: decodeJsonText(usage) as TokenUsage,
    provider: details?.provider,
    source: sourceOfNumber(sourceNumberOf(row[ROW.FLAGS])),
    at: row[ROW.START_MS] ?? createdAt,
  });
  const after = typeof cost === 'object' ? cost : undefined;
  if (isSameCost(before, after)) return { row, before, after, isChanged: false };
  const priced: ObservationRow = [...row];
  priced[ROW.DETAILS] = columnOf({ ...details, cost: after });
  return { row: priced, before, after, isChanged: true };
}

function isSameCost(a: Cost | undefined, b: Cost | undefined): boolean {
  return a?.total === b?.total && a?.input === b?.input && a?.output === b?.output;
}

function columnOf(
  details: {
    readonly [Name in keyof ObservationDetails]: ObservationDetails[Name] | undefined;
  },
): string | null {
  const known = detailsOf(details);
  return known === null ? null : JSON.stringify(known);
}
