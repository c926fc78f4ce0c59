import type { Test } from 'tap';
import t from 'tap';
import { config } from '../../../exporters/sqlite/config.ts';
import { createExporter } from '../../../exporters/sqlite/exporter.ts';
import { offer } from '../../../src/component/capability.ts';
import { STORE } from '../../../src/store/store.ts';
import { aTenant, nativeBatch, observationBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

const NEVER = new AbortController().signal;

/** An exporter on a store in a file, which it finds under the id `kept`. */
async function place(t: Test) {
  const opened = await sqlitePlace(t).open();
  t.teardown(() => opened.close());
  const { store, finish } = opened;
  const host = fakeHost({ extensions: { kept: [offer(STORE, store)] } });
  const settings = testSettings('exporter', 'sqlite', { host });
  const exporter = createExporter(settings, config.parse({ store: 'kept' }));
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  return { store, finish, exporter, tenant };
}

t.test('stores observations and their raw batch, and nothing twice', async (t) => {
  const { store, exporter, tenant } = await place(t);
  await exporter.start();
  const source = nativeBatch(2, { tenant, usage: { events: 2, bytes: 20 } });
  const batch = observationBatch(source, { traceId: 't' });
  await exporter.consume(batch);
  await exporter.consume(batch);
  const { items } = await store.traces.listObservations(tenant.projectId, 't', { limit: 10 });
  t.same(
    items.map(({ id }) => id),
    ['observation-1', 'observation-2'],
  );
  const batches = await store.traces.getBatches(tenant.projectId, [source.id]);
  t.same(
    batches.map(({ body }) => body),
    [source.body],
  );
  t.same(await store.usage.verify(), [], 'the usage is counted once');
});

t.test('rejects a batch of a deleted project for good', async (t) => {
  const { store, finish, exporter } = await place(t);
  await exporter.start();
  const { id } = await store.projects.create('deleted');
  await store.projects.delete(id);
  await finish();
  const source = nativeBatch(1, { tenant: aTenant({ projectId: id }) });
  await t.rejects(exporter.consume(observationBatch(source)), {
    name: 'PermanentError',
    code: 'project_deleted',
  });
});

t.test('names a store that does not run', async (t) => {
  const settings = testSettings('exporter', 'sqlite', { host: fakeHost() });
  const exporter = createExporter(settings, config.parse({}));
  await t.rejects(exporter.start(), /extension "sqlite"/);
});

t.test('consumes only between its start and its shutdown', async (t) => {
  const { exporter, tenant } = await place(t);
  const batch = observationBatch(nativeBatch(1, { tenant }));
  await t.rejects(exporter.consume(batch), { name: 'RetryableError', code: 'starting' });
  await exporter.start();
  await exporter.consume(batch);
  await exporter.shutdown(NEVER);
  await t.rejects(exporter.consume(batch), { name: 'RetryableError', code: 'starting' });
});
