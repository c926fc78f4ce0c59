import t from 'tap';
import type { Postgres } from '../../../extensions/postgres/connection/pool.ts';
import type { Result, Statement } from '../../../extensions/postgres/connection/statement.ts';
import { traceKeeper } from '../../../extensions/postgres/trace-keeper.ts';
import { workLeases } from '../../../extensions/postgres/work-leases.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { MAX_SUMMARIZED } from '../../../src/store/rows/written-trace.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { batchWith } from '../../helper/trace-database.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);

t.test('a large trace gets its summary while housekeeping removes other data', async (t) => {
  const place = await postgresPlace(server);
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

t.test('all processes rest ten times the length of a round, and a minute at most', async (t) => {
  const clock = fakeClock();
  let tookMs = 0;
  const rests: unknown[] = [];
  const answer = (text: string, values: readonly unknown[] = []): Result => {
    if (text.includes('stale_changes > 0')) clock.set(clock.now() + tookMs);
    else if (!text.includes("SET holder = ''")) return { rows: [{ is_held: true }] };
    else if (values[0] === 'summaries') rests.push(values[2]);
    return { rows: [] };
  };
  const query = async (text: string, values?: readonly unknown[]) => answer(text, values);
  const commit = async (statements: readonly Statement[]) =>
    statements.map(([text]) => answer(text));
  const transaction = (work: (client: object) => Promise<unknown>) => work({ query, commit });
  const postgres = { query, transaction } as unknown as Postgres;
  const parts = { clock, logger: recordingLogger() };
  const keeper = traceKeeper(postgres, parts, { leftOut() {} }, { publish() {} });
  t.teardown(() => keeper.close());
  for (const ms of [0, 1_000, 3_600_000]) {
    tookMs = ms;
    await keeper.finish();
  }
  t.same(rests, [1_900, 10_000, 60_000]);
});
