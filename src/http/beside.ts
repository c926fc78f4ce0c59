import type { Offer } from '../component/capability.ts';
import { findOffers } from '../component/capability.ts';
import type { Clock, Logger } from '../component/component.ts';
import type { Tenant } from '../model/batch.ts';
import { SCORE_EDITOR } from '../store/scores.ts';
import type { Store } from '../store/store.ts';
import type { RequestAttachments } from './attachments.ts';
import { requestAttachments } from './attachments.ts';
import type { FeedbackIntake, RequestFeedback } from './feedback.ts';
import { requestFeedback } from './feedback.ts';
import type { Prepared } from './prepare.ts';

/** The parts of a request that are no items. Each is undefined if the request has none of them, or they have no store. */
export type Beside = {
  readonly attachments: RequestAttachments | undefined;
  readonly feedback: RequestFeedback | undefined;
};

const NOTHING: Beside = { attachments: undefined, feedback: undefined };

type Place = {
  readonly feedback: FeedbackIntake | undefined;
  readonly pipeline: { readonly offers: readonly Offer[] };
  readonly clock: Clock;
  readonly logger: Logger;
};

/** They are not stored before the batch is sealed: see `RequestAttachments` and `RequestFeedback`. */
export function besideOf(
  { pipeline, feedback: intake, clock, logger }: Place,
  store: Store | undefined,
  tenant: Tenant,
  { attachments = [], feedback = [] }: Prepared,
): Beside {
  if (store === undefined) return NOTHING;
  const takesFeedback = intake !== undefined && feedback.length > 0;
  return {
    attachments:
      attachments.length === 0
        ? undefined
        : requestAttachments(store.attachments, attachments, logger),
    feedback: takesFeedback
      ? requestFeedback(
          intake,
          {
            ...{ tenant, store, now: clock.now() },
            scoreEditors: findOffers(pipeline.offers, SCORE_EDITOR),
          },
          feedback,
        )
      : undefined,
  };
}
