import type { TimeToFirstToken } from './amount-conventions.ts';
import { COST_OBJECTS, COSTS, LANGFUSE_COST, TTFT } from './amount-conventions.ts';
import { DETAIL_TEXTS, TAGS } from './conventions.ts';

/** The rules for the attributes that give the details of an observation. The metadata keeps these attributes too. */

export type CostPart = keyof typeof COSTS;
export type DetailText = keyof typeof DETAIL_TEXTS;

/** A detail that an attribute can give. `rank` is its place in its list. */
export type DetailRule =
  | { readonly role: 'detail'; readonly detail: DetailText; readonly rank: number }
  | { readonly role: 'tags'; readonly rank: number }
  | { readonly role: 'ttft'; readonly rank: number; readonly of: TimeToFirstToken }
  | { readonly role: 'cost'; readonly part: CostPart; readonly rank: number }
  /** `isSummed`: the total is the sum of all amounts, if it is not sent. */
  | { readonly role: 'costs'; readonly rank: number; readonly isSummed: boolean };

/** Each attribute with its rule; an attribute may have several. */
export function* detailRules(): Generator<[key: string, rule: DetailRule], void> {
  for (const [detail, keys] of Object.entries(DETAIL_TEXTS) as [DetailText, readonly string[]][]) {
    for (const [rank, key] of keys.entries()) yield [key, { role: 'detail', detail, rank }];
  }
  for (const [rank, key] of TAGS.entries()) yield [key, { role: 'tags', rank }];
  for (const [rank, of] of TTFT.entries()) yield [of.key, { role: 'ttft', rank, of }];
  for (const [part, keys] of Object.entries(COSTS) as [CostPart, readonly string[]][]) {
    for (const [rank, key] of keys.entries()) yield [key, { role: 'cost', part, rank }];
  }
  for (const [rank, key] of COST_OBJECTS.entries()) {
    yield [key, { role: 'costs', rank, isSummed: key === LANGFUSE_COST }];
  }
}
