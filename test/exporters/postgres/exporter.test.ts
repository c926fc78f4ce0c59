import fc from 'fast-check';
import t from 'tap';
import { writeAllButPoison } from '../../../exporters/postgres/bisection.ts';
import { config } from '../../../exporters/postgres/config.ts';
import { createExporter as postgresExporter } from '../../../exporters/postgres/exporter.ts';
import { offer } from '../../../src/component/capability.ts';
import type { ObservationBatch } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import type { TraceStore } from '../../../src/store/store.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

const NEVER = new AbortController().signal;

/** An exporter on a store with these traces. */
async function exporterOn(traces: Pick<TraceStore, 'write'>) {
  const host = fakeHost({ extensions: { postgres: [offer(STORE, { traces } as Store)] } });
  const settings = testSettings('exporter', 'postgres', { host });
  const exporter = postgresExporter(settings, config.parse({}));
  await exporter.start();
  return { exporter, logger: settings.logger };
}

/** Rejects batches with poison in them, and notes the stored items. */
function pickyStore(isPoison: (id: string) => boolean) {
  const stored: string[] = [];
  let writes = 0;
  return {
    stored,
    writes: () => writes,
    async write({ observations }: ObservationBatch): Promise<void> {
      writes++;
      const refused = observations.find(({ id }) => isPoison(id));
      if (refused !== undefined) {
        throw new PermanentError('storage_refused', `${refused.id} is rejected`);
      }
      stored.push(...observations.map(({ id }) => id));
    },
  };
}

function numbered(count: number): ObservationBatch {
  return batchWith(Array.from({ length: count }, (_, i) => anObservation({ id: `o${i}` })));
}

t.test('names the rejected items and stores all others once', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean(), { minLength: 1, maxLength: 60 }), async (poison) => {
      const traces = pickyStore((id) => poison[Number(id.slice(1))] === true);
      const outcome = writeAllButPoison(traces, numbered(poison.length));
      const places = poison.flatMap((isPoison, i) => (isPoison ? [i] : []));
      if (places.length === poison.length) {
        await t.rejects(outcome, { code: 'storage_refused', failures: undefined });
        return;
      }
      const failures = await outcome;
      t.same(
        failures.map(({ index }) => index),
        places,
      );
      for (const { index, message } of failures) t.equal(message, `o${index} is rejected`);
      const fine = poison.flatMap((isPoison, i) => (isPoison ? [] : [`o${i}`]));
      t.same(traces.stored, fine);
    }),
    { numRuns: 60 },
  );
});

t.test('does not try every row if all are rejected', async (t) => {
  const traces = pickyStore((id) => id !== 'o0');
  const failures = await writeAllButPoison(traces, numbered(5000));
  t.ok(traces.writes() < 1100);
  t.ok(failures.length > 4900);
  t.equal(new Set(failures.map(({ index }) => index)).size, failures.length);
});

t.test('does not bisect after a retryable error or for a deleted project', async (t) => {
  const error = new RetryableError('storage_failed', 'away');
  const { exporter } = await exporterOn({ write: () => Promise.reject(error) });
  await t.rejects(exporter.consume(numbered(4)), error);
  const deleted = new PermanentError('project_deleted', 'gone');
  let writes = 0;
  const gone = await exporterOn({
    write() {
      writes++;
      return Promise.reject(deleted);
    },
  });
  await t.rejects(gone.exporter.consume(numbered(4)), deleted);
  t.equal(writes, 1);
  await exporter.shutdown(NEVER);
  await t.rejects(exporter.consume(numbered(1)), { name: 'RetryableError', code: 'starting' });
});

t.test('stores the neighbours of a rejected row, also the second time', async (t) => {
  const server = await postgresDatabases(t);
  const { traces, postgres, count } = await traceDatabase(t, await server.database());
  await postgres.query(`ALTER TABLE observations ADD CHECK (name <> 'poison')`);
  const { exporter, logger } = await exporterOn(traces);
  const names = ['a', 'b', 'poison', 'c', 'poison', 'd'];
  const batch = batchWith(names.map((name, i) => anObservation({ id: `o${i}`, name })));
  for (let i = 0; i < 2; i++) {
    await t.rejects(exporter.consume(batch), {
      ...{ name: 'PermanentError', code: 'storage_refused', message: /23514/ },
      failures: [{ index: 2 }, { index: 4 }],
    });
    const trace = await traces.getTrace(aTenant().projectId, 'trace-1');
    t.equal(trace?.observationCount, 4);
    t.equal(await count('batches'), 1);
  }
  t.match(logger.lines, [{ level: 'warn', fields: { items: 2, code: 'storage_refused' } }]);
  // A number that exceeds the column's type is rejected, too.
  const index = 2 ** 40;
  const large = batchWith([anObservation({ id: 'x' }), anObservation({ id: 'y' })]);
  const observations = large.observations.map((one, i) => (i === 0 ? one : { ...one, index }));
  await t.rejects(exporter.consume({ ...large, observations }), {
    ...{ name: 'PermanentError', code: 'storage_refused', message: /22003/ },
    failures: [{ index }],
  });
});
