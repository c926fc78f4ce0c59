import type { Exporter, Settings } from '../../src/component/component.ts';
import { NotStartedError } from '../../src/component/deferred.ts';
import type { Store } from '../../src/store/store.ts';
import { STORE } from '../../src/store/store.ts';
import type { SqliteExporterConfig } from './config.ts';

/** A transaction of eight batches writes about half as many pages as eight of one batch. */
const BATCHES_TOGETHER = 8;

/** observations ──▶ merged into their rows, in one transaction with the raw batch if the store lacks it */
export function createExporter(
  settings: Settings,
  config: SqliteExporterConfig,
): Exporter<'observations'> {
  let store: Store | undefined;
  return {
    batchesTogether: BATCHES_TOGETHER,
    keepsNothing: true,
    async start() {
      store = settings.host.extension(config.store, STORE);
    },
    async consume(batch) {
      if (store === undefined) throw new NotStartedError(`exporter ${settings.id}`);
      await store.traces.write(batch);
    },
    async shutdown() {
      store = undefined;
    },
  };
}
