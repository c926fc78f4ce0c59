import type { Logger } from '../component/component.ts';
import type { FileTexts } from '../config/file-texts.ts';
import { WorkerGone, type WorkerHandle } from './worker-handle.ts';

/**
 * Has one worker after the other take up a configuration, so that never more than one is busy with itself.
 * Where one refuses, all return to the former one, and it rejects with what that one said.
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

/** Has those that took up another configuration take up the former one; for the others nothing changes. */
export async function returnTo(
  former: FileTexts,
  workers: readonly WorkerHandle[],
  logger: Logger,
): Promise<void> {
  for (const worker of workers) {
    try {
      await reloadWorker(worker, former, logger);
    } catch (error) {
      const fields = { worker: worker.index, error };
      logger.error(fields, 'A worker cannot return to the former configuration.');
    }
  }
}

async function reloadWorker(worker: WorkerHandle, files: FileTexts, logger: Logger): Promise<void> {
  // What is starting may have read the former one.
  await worker.settled();
  try {
    await worker.ask({ kind: 'reload', files });
  } catch (error) {
    if (!(error instanceof WorkerGone)) throw error;
    const fields = { worker: worker.index };
    logger.warn(fields, 'A worker is down; the configuration is taken up when it starts.');
  }
}
