import type { Logger } from '../component/component.ts';
import type { FileTexts } from '../config/file-texts.ts';
import { WorkerGone, type WorkerHandle } from './worker-handle.ts';

/**
 * Reloads one worker after the other, so that at most one is reloading at a time. If a worker refuses the
 * configuration, all workers return to the one before it, and the promise rejects with the worker's error.
 */
export async function reloadWorkers(
  workers: readonly WorkerHandle[],
  files: FileTexts,
  former: FileTexts,
  logger: Logger,
): Promise<void> {
  try {
    for (const worker of workers) await reloadWorker(worker, files, logger);
  } catch (error) {
    await returnTo(former, workers, logger);
    throw error;
  }
}

/** Returns the reloaded workers to the configuration before. */
async function returnTo(
  former: FileTexts,
  workers: readonly WorkerHandle[],
  logger: Logger,
): Promise<void> {
  for (const worker of workers) {
    try {
      await reloadWorker(worker, former, logger);
    } catch (error) {
      const fields = { worker: worker.index, err: error };
      logger.error(fields, 'Worker could not return to the configuration before');
    }
  }
}

async function reloadWorker(worker: WorkerHandle, files: FileTexts, logger: Logger): Promise<void> {
  // A starting worker may have read the configuration before.
  await worker.settled();
  try {
    await worker.ask({ kind: 'reload', files });
  } catch (error) {
    if (!(error instanceof WorkerGone)) throw error;
    const fields = { worker: worker.index };
    logger.warn(fields, 'Worker is down; it gets the configuration when it starts');
  }
}
