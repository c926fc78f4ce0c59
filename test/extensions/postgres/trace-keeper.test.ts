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

t.test('rests for a minute at most after a round of summaries', async (t) => {
  const clock = fakeClock();
  let rounds = 0;
  const answer = (text: string): Result => {
    if (!text.includes('stale_changes > 0')) return { rows: [{ is_held: true }] };
    rounds++;
    clock.set(clock.now() + 3_600_000);
    return { rows: [] };
  };
  const query = async (text: string) => answer(text);
  const commit = async (statements: readonly Statement[]) =>
    statements.map(([text]) => answer(text));
  const transaction = (work: (client: object) => Promise<unknown>) => work({ query, commit });
  const postgres = { query, transaction } as unknown as Postgres;
  const parts = { clock, logger: recordingLogger() };
  const keeper = traceKeeper(postgres, parts, { leftOut() {} }, { publish() {} });
  t.teardown(() => keeper.close());
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  };
  await pass(0);
  t.equal(rounds, 1);
  await pass(59_999);
  t.equal(rounds, 1);
  await pass(1);
  t.equal(rounds, 2);
});
