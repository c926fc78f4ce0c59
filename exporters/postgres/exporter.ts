import type { Exporter, Settings } from '../../src/component/component.ts';
import { NotStartedError } from '../../src/component/deferred.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { Store } from '../../src/store/store.ts';
import { STORE } from '../../src/store/store.ts';
import { writeAllButPoison } from './bisection.ts';
import type { PostgresExporterConfig } from './config.ts';

/**
 *   observations ──▶ merged into their rows, with the raw batch if it is missing ──▶ done
 *                        │ data rejected: halves, and halves of those (bisection.ts)
 *                        └──▶ valid items stored, rejected items named in the error
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
      if (store === undefined) throw new NotStartedError(`exporter ${id}`);
      const failures = await writeAllButPoison(store.traces, batch);
      const [first] = failures;
      if (first === undefined) return;
      const about = { batch: batch.source.id, items: failures.length, code: first.code };
      logger.warn(about, 'Items rejected by Postgres; the others are stored');
      throw new PermanentError(first.code, first.message, { failures });
    },
    async shutdown() {
      store = undefined;
    },
  };
}
