import type { Test } from 'tap';
import { attachments } from './attachments.ts';
import { backlog } from './backlog.ts';
import { changes } from './changes.ts';
import { copies } from './copies.ts';
import { costs } from './costs.ts';
import { erasures } from './erasures.ts';
import { expiredItems } from './expired-items.ts';
import { expiredMixes } from './expired-mixes.ts';
import { exports } from './exports.ts';
import { groups } from './groups.ts';
import { projectsAndKeys } from './keys.ts';
import { listings } from './listings.ts';
import { merging } from './merging.ts';
import { observations } from './observations.ts';
import type { OpenStore, StorePlace } from './place.ts';
import { opening } from './place.ts';
import { postings } from './postings.ts';
import { queries } from './queries.ts';
import { ranks } from './ranks.ts';
import { rollupRules } from './rollups.ts';
import { scores } from './scores.ts';
import { states } from './states.ts';
import { summaries } from './summaries.ts';
import { observedValuesRules } from './values.ts';

/** The rules for every store, in parts: a test file runs one. Its queues have rules of their own in test/contract/queue.ts. */
const PARTS = {
  writes: {
    'projects and keys': projectsAndKeys,
    observations,
    merging,
    summaries,
    states,
    backlog,
    changes,
    costs,
    copies,
    erasures,
    'items of expired traces': expiredItems,
    'mixed batches of expired traces': expiredMixes,
  },
  searches: { listings, queries, 'sorted lists': ranks, postings },
  sums: {
    exports,
    'values of observations': observedValuesRules,
    rollups: rollupRules,
    scores,
    attachments,
    'sessions and users': groups,
  },
} satisfies Record<string, Record<string, (t: Test, open: OpenStore) => void>>;

export function storeContract(
  t: Test,
  part: keyof typeof PARTS,
  place: (t: Test) => Promise<StorePlace>,
): void {
  const open = opening(t, place);
  for (const [name, rules] of Object.entries(PARTS[part])) {
    t.test(name, (t) => {
      rules(t, open);
      t.end();
    });
  }
}
