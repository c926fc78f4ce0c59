import t from 'tap';
import { createScanner } from '../../../../src/http/scan-pool.ts';
import { readLocally } from '../../../../src/read/local.ts';
import { projectReads } from '../../../../src/read/routes.ts';
import type { Store, TraceStore } from '../../../../src/store/store.ts';
import { aTenant } from '../../../helper/batches.ts';
import { aTrace } from '../../../helper/fake-traces.ts';
import { testReadsOwner } from '../../../helper/http.ts';
import { recordingLogger } from '../../../helper/settings.ts';
import { until } from '../../../helper/until.ts';

const STEPS = 40;

t.test('exports of a project delay the list of another by one step', async (t) => {
  const turns: string[] = [];
  const listTraces: TraceStore['listTraces'] = async (projectId, { cursor = '0' }) => {
    turns.push(projectId);
    await new Promise((resolve) => setTimeout(resolve, 2));
    const next = Number(cursor) + 1;
    const isLast = projectId === 'quiet' || next === STEPS;
    return {
      ...{ items: [aTrace({ id: `t-${cursor}` })], nextCursor: isLast ? null : String(next) },
      ...{ cursorAfter: () => String(next), searchedTo: null, spentMs: 1 },
    };
  };
  const store = { traces: { listTraces } as Partial<TraceStore> } as Store;
  const limits = { concurrent_reads: 1, concurrent_exports: 4, exports_per_key: 3 };
  const reads = testReadsOwner(limits);
  const requests = projectReads({ reads, scanner: createScanner(), logger: recordingLogger() });
  const get = (projectId: string, target: string) => {
    const tenant = aTenant({ projectId, keyId: `key_${projectId}` });
    return readLocally(requests, { tenant, store }, target);
  };
  const exports = [1, 2, 3].map(() => get('loud', '/export'));
  await until(() => turns.length >= 6);
  for (let i = 0; i < 5; i++) {
    const before = turns.length;
    const { status } = await get('quiet', '/traces');
    t.equal(status, 200);
    const waited = turns.slice(before).indexOf('quiet');
    t.ok(
      waited <= 2,
      `${waited} steps of the exports come first: the one in progress and one turn`,
    );
  }
  for (const { status, trailers } of await Promise.all(exports)) {
    t.equal(status, 200);
    t.match(trailers, { 'tracectl-export-rows': String(STEPS) });
  }
});
