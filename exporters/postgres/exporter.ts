import type { Exporter, Settings } from '../../src/component/component.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { Store } from '../../src/store/store.ts';
import { STORE } from '../../src/store/store.ts';
import { writeAllButPoison } from './bisection.ts';
import type { PostgresExporterConfig } from './config.ts';

/**
 *   observations ──▶ merged into their rows, with the raw batch if it is not there ──▶ done
 *                        │ the data is refused: halves, and halves of them
 *                        └──▶ what can be stored is stored, the rest is named
 */
export function createExporter(
  settings: Settings,
  config: PostgresExporterConfig,
): Exporter<'observations'> {
  const { id, host, logger } = settings;
  let store: Store | undefined;
  return {
    async start() {
      store = host.extension(config.store, STORE);
    },
    async consume(batch) {
      if (store === undefined) throw new Error(`exporter ${id} is not started`);
      const failures = await writeAllButPoison(store.traces, batch);
      const [first] = failures;
      if (first === undefined) return;
      const about = { batch: batch.source.id, items: failures.length, code: first.code };
      logger.warn(about, 'part of a batch is refused: all else of it is stored');
      throw new PermanentError(first.code, first.message, { failures });
    },
    async shutdown() {
      store = undefined;
    },
  };
}
