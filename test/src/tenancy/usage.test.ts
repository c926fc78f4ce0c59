import t from 'tap';
import type { TenancyRows } from '../../../src/tenancy/rows.ts';
import { usageStore } from '../../../src/tenancy/usage.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const FROM = Date.UTC(2026, 10, 1);

t.test('lets the store sum days up, of which a year has 8,760 hours for each key', async (t) => {
  const asked: unknown[] = [];
  const sums = { project: 'proj_1', key: 'key_1', hour: FROM / HOUR };
  const rows = {
    async usedAndRejected(...given: unknown[]) {
      asked.push(given);
      const rejected = [{ ...sums, code: 'invalid_field', count: 2 }];
      return { used: [{ ...sums, events: 3, bytes: 30 }], rejected };
    },
  } as Partial<TenancyRows> as TenancyRows;
  const { history } = usageStore(
    rows,
    async () => [],
    async () => {},
  );
  const row = { projectId: 'proj_1', keyId: 'key_1', events: 3, bytes: 30 };
  t.same(await history({ from: FROM, to: FROM + 365 * DAY, by: 'day' }), [
    { ...row, period: '2026-11-01', rejected: { invalid_field: 2 } },
  ]);
  t.same(await history({ from: FROM, to: FROM + 2 * HOUR, by: 'hour', projectId: 'proj_1' }), [
    { ...row, period: '2026-11-01T00', rejected: { invalid_field: 2 } },
  ]);
  t.same(asked, [
    [FROM / HOUR, FROM / HOUR + 365 * 24, 24, null],
    [FROM / HOUR, FROM / HOUR + 2, 1, 'proj_1'],
  ]);
});
