import t from 'tap';
import { workLeases } from '../../../extensions/postgres/work-leases.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { MAX_SUMMARIZED } from '../../../src/store/rows/written-trace.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { batchWith } from '../../helper/trace-database.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);

t.test('a large trace gets its summary while housekeeping removes other data', async (t) => {
  const place = await postgresPlace(t, server);
  const open = await place.open();
  t.teardown(() => open.close());
  const { traces, projects } = open.store;
  const [project] = await projects.list();
  const projectId = project?.id ?? '';
  const leases = workLeases(open.postgres, systemClock, recordingLogger(), 60_000);
  let housekeeping = await leases.acquire('housekeeping');
  await until(async () => {
    housekeeping ??= await leases.acquire('housekeeping');
    return housekeeping !== undefined;
  });
  const large = Array.from({ length: MAX_SUMMARIZED + 1 }, (_, i) =>
    anObservation({ id: `o${i}`, traceId: 'large' }),
  );
  await traces.write(batchWith(large, { tenant: aTenant({ projectId }) }));
  await until(async () => {
    place.clock.advance(2_000);
    const trace = await traces.getTrace(projectId, 'large');
    return trace?.observationCount === large.length;
  });
  t.ok(housekeeping);
});
