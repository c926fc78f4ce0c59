import type { Logger } from '../component/component.ts';
import type { AttachmentContent } from '../model/attachments.ts';
import type { SealedBatch } from '../model/batch.ts';
import { Refusal, StoreError } from '../model/errors.ts';
import type { AttachmentStore } from '../store/attachments.ts';

/** The attachments of a request: stored once its batch is sealed, and held by the batch until it is written. */
export type RequestAttachments = {
  /** Stores those of the items that the batch has. Rejects if the batch must not be accepted. */
  store(batch: SealedBatch): Promise<void>;
  /** The batch was not accepted. Does not reject. */
  release(): Promise<void>;
};

export function requestAttachments(
  store: AttachmentStore,
  contents: readonly AttachmentContent[],
  logger: Logger,
): RequestAttachments {
  let held: string | undefined;
  return {
    async store({ id, tenant, positions }) {
      const kept = positions === undefined ? undefined : new Set(positions);
      const stored = contents
        .filter(({ item }) => kept?.has(item) ?? true)
        .map(({ sha256, contentType, content }) => ({
          ...{ sha256: Buffer.from(sha256, 'hex'), contentType, content },
        }));
      if (stored.length === 0) return;
      held = id;
      try {
        await store.put(tenant.projectId, id, stored);
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        throw new Refusal('unauthorized', 'The project was deleted.', { cause: error });
      }
    },
    async release() {
      if (held === undefined) return;
      try {
        await store.release(held);
      } catch (error) {
        logger.info({ err: error }, 'Attachments of a refused request stay for some time');
      }
    },
  };
}
