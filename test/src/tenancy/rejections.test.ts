import t from 'tap';
import type { RejectionEntry } from '../../../src/tenancy/contract.ts';
import { rejectionStore } from '../../../src/tenancy/rejections.ts';
import type { ProjectRejections, RejectedRow, TenancyRows } from '../../../src/tenancy/rows.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

/** Entries of one project that are kept in memory, and those of all. */
const OF_PROJECT = 2_500;
const OF_ALL = 10_000;

function buffered() {
  const stored = new Map<string, number>();
  const counted = new Map<string, number>();
  let isAway = false;
  const add = (sums: Map<string, number>, name: string, n: number) =>
    sums.set(name, (sums.get(name) ?? 0) + n);
  const rows = {
    async recordRejections(projects: ProjectRejections[], counts: readonly RejectedRow[]) {
      if (isAway) throw new Error('the database is away');
      for (const { project, rows } of projects) add(stored, project, rows.length);
      for (const { project, count } of counts) add(counted, project, count);
    },
  } as unknown as TenancyRows;
  const logger = recordingLogger();
  const config = { max_entries: OF_ALL, max_age: 3_600_000 };
  const store = rejectionStore(rows, fakeClock(), logger, config);
  const refuse = (projectId: string, times: number) => {
    for (let n = 0; n < times; n++) store.record(entryOf(projectId));
  };
  return {
    ...{ store, stored, counted, logger, refuse },
    away(value: boolean) {
      isAway = value;
    },
  };
}

function entryOf(projectId: string): RejectionEntry {
  return {
    ...{ at: 0, projectId, keyId: 'key', path: '/v1/traces', code: 'rate_limited' },
    ...{ reason: 'This key sends too much.', itemId: null, client: null, count: 1 },
  };
}

t.test('keeps the first 500 characters of a reason and of a path', async (t) => {
  const written: ProjectRejections['rows'][number][] = [];
  const rows = {
    async recordRejections(projects: ProjectRejections[]) {
      for (const project of projects) written.push(...project.rows);
    },
  } as unknown as TenancyRows;
  const config = { max_entries: OF_ALL, max_age: 3_600_000 };
  const store = rejectionStore(rows, fakeClock(), recordingLogger(), config);
  for (const length of [500, 501]) {
    const text = 'x'.repeat(length);
    store.record({ ...entryOf('a'), reason: text, path: text });
  }
  await store.flush();
  t.same(
    written.map(({ reason, path }) => [reason.length, path.length]),
    [
      [500, 500],
      [500, 500],
    ],
  );
});

t.test('the refused requests of a project leave room for the entries of others', async (t) => {
  const { store, stored, counted, logger, refuse } = buffered();
  refuse('loud', OF_PROJECT);
  await store.flush();
  t.equal(stored.get('loud'), OF_PROJECT, 'exactly at the bound every entry is kept');
  t.same(logger.lines, []);

  refuse('loud', OF_ALL);
  refuse('quiet', 1);
  await store.flush();
  t.equal(stored.get('loud'), 2 * OF_PROJECT);
  t.equal(stored.get('quiet'), 1);
  t.equal(counted.get('loud'), OF_PROJECT + OF_ALL, 'every refusal is counted');
  t.match(logger.lines, [{ fields: { lines: OF_ALL - OF_PROJECT } }]);
});

t.test('entries of a failed write count until they are written', async (t) => {
  const { store, stored, logger, refuse, away } = buffered();
  refuse('loud', OF_PROJECT);
  away(true);
  await store.flush();
  t.match(logger.lines, [{ fields: { err: { message: 'the database is away' } } }]);
  refuse('loud', 1);
  for (const project of ['b', 'c', 'd']) refuse(project, OF_PROJECT);
  refuse('e', 1);
  away(false);
  await store.flush();
  t.same(Object.fromEntries(stored), {
    ...{ loud: OF_PROJECT, b: OF_PROJECT, c: OF_PROJECT, d: OF_PROJECT },
  });
  refuse('e', 1);
  await store.close();
  t.equal(stored.get('e'), 1);
});
