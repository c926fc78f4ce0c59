import type { SealedBatch } from '../../src/model/batch.ts';
import { observeEach } from '../../src/model/formats.ts';
import { withinLimits } from '../../src/model/narrow-limits.ts';
import { answerRequests, asBuffer } from '../../src/thread/thread.ts';
import type { ObservedLarge } from './large.ts';
import { itemFailure } from './large.ts';

/** The thread of processors/normalization/large.ts. */
answerRequests<SealedBatch, ObservedLarge>((batch) => {
  const { observations, failures } = observeEach({ ...batch, body: asBuffer(batch.body) });
  const reply = {
    observations: observations.map(withinLimits).map(({ customFields, ...rest }) => ({
      rest,
      customFields: customFields === null ? null : JSON.stringify(customFields),
    })),
    failures: failures.map(itemFailure),
  };
  return { reply };
});
