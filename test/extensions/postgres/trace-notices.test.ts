import t from 'tap';
import { anObservation } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith } from '../../helper/trace-database.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);
const P = 'proj_test';

t.test('a process hears of the traces that another one writes, while it watches', async (t) => {
  const place = await postgresPlace(server);
  const reader = await place.open();
  const writer = await place.open();
  t.teardown(async () => {
    await reader.close();
    await writer.close();
  });
  const heard: string[] = [];
  const write = (...traceIds: string[]) =>
    writer.store.traces.write(
      batchWith(traceIds.map((traceId) => anObservation({ traceId, id: `o ${traceId}` }))),
    );
  const passes = async (isEnough: () => boolean) =>
    until(() => {
      place.clock.advance(100);
      return isEnough();
    });
  await write('before');
  const unwatch = reader.store.changes.watch(P, (ids) => heard.push(...ids));
  await until(() => writer.store.changes instanceof Object && isWatched(writer));
  const long = 'é'.repeat(600);
  await write('a b', long, 'nul \u0000');
  await passes(() => heard.length >= 3);
  t.same(heard.toSorted(), ['a b', 'nul \u0000', long].sort());
  const many = Array.from({ length: 400 }, (_, i) => `trace-${'x'.repeat(40)}-${i}`);
  heard.length = 0;
  await write(...many);
  await passes(() => heard.length >= many.length);
  t.same(heard.toSorted(), many.toSorted(), 'several notices');
  unwatch();
  place.clock.advance(15_001);
  t.notOk(isWatched(writer), 'others forget a project that is not watched any more');
});

function isWatched({ store }: { store: { changes: object } }): boolean {
  const { changes } = store as { changes: { isWatched(projectId: string): boolean } };
  return changes.isWatched(P);
}
