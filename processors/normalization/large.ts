import type { ItemFailure, SealedBatch } from '../../src/model/batch.ts';
import { withCustomFieldsText } from '../../src/model/custom-fields.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { UnreadableItem } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import { createThread, threadFile } from '../../src/thread/thread.ts';

export type Observed = {
  readonly observations: readonly Observation[];
  readonly failures: readonly ItemFailure[];
};

/** The reply of the thread. Custom fields, which may be megabytes, cross as text. */
export type ObservedLarge = {
  readonly observations: readonly {
    readonly rest: Omit<Observation, 'customFields'>;
    readonly customFields: string | null;
  }[];
  readonly failures: readonly ItemFailure[];
};

/** Normalizes large batches in a thread, because a hostile batch takes seconds. */
export type LargeObserver = {
  /** Rejects with `RetryableError` if the thread ends early. */
  observe(batch: SealedBatch): Promise<Observed>;
  close(): Promise<void>;
};

export function createLargeObserver(): LargeObserver {
  const thread = createThread<SealedBatch, ObservedLarge>(
    threadFile(import.meta.url, 'observing-thread'),
  );
  return {
    async observe(batch) {
      const { observations, failures } = await thread.ask(batch).catch((cause) => {
        throw new RetryableError('normalization_failed', 'The batch was not normalized.', {
          cause,
        });
      });
      return { observations: observations.map(revived), failures };
    },
    close: () => thread.close(),
  };
}

function revived({ rest, customFields }: ObservedLarge['observations'][number]): Observation {
  return customFields === null
    ? { ...rest, customFields }
    : withCustomFieldsText(rest, customFields);
}

/** The failure to report for an accepted item that cannot be read. */
export function itemFailure({ index, error }: UnreadableItem): ItemFailure {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof PermanentError ? error.code : 'unreadable_event';
  return { index, code, message };
}
