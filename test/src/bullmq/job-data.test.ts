import t from 'tap';
import {
  batchIn,
  branchesIn,
  itemsIn,
  jobPayload,
  pointersIn,
  pointerTo,
  projectIn,
} from '../../../src/bullmq/job-data.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';

const tenant = aTenant({ projectId: 'proj_a' });

/** The data as a worker reads it from Redis. */
function stored(data: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(data));
}

t.test('reads the batch that was written', async (t) => {
  const batch = nativeBatch(2, { tenant });
  const data = stored(jobPayload(batch));
  const read = batchIn(data);
  t.match(read, { id: batch.id, format: 'native', tenant, requestItems: 2 });
  t.ok(read?.body.equals(batch.body));
  t.equal(projectIn(data), 'proj_a');
  t.equal(itemsIn(data), 2);
});

t.test('reads no batch from damaged data or from data of another program', async (t) => {
  const payload = jobPayload(nativeBatch(1));
  const damaged = [
    undefined,
    null,
    'batch',
    {},
    { batch: 'b' },
    { ...payload, body: 1 },
    { ...payload, record: payload.record.slice(1) },
    { ...payload, record: [...payload.record, 0] },
    { ...payload, record: payload.record.with(5, 99) },
    { ...payload, record: payload.record.with(9, '1') },
  ];
  for (const data of damaged) t.equal(batchIn(data), undefined, JSON.stringify(data));
});

t.test('finds the project of a payload that holds no readable batch', async (t) => {
  const { record } = jobPayload(nativeBatch(1, { tenant }));
  const data = stored({ record: record.slice(0, 3) });
  t.equal(projectIn(data), 'proj_a');
  t.equal(itemsIn(data), 0);
  t.equal(projectIn({ batch: 'b' }), undefined);
});

t.test('reads the branches of a replayed dead letter and the ids in a pointer', async (t) => {
  t.same(branchesIn({ ...jobPayload(nativeBatch(1)), branches: ['a'] }), ['a']);
  t.equal(branchesIn(jobPayload(nativeBatch(1))), undefined);
  t.same(pointersIn({ batch: 'b' }), ['b']);
  t.same(pointersIn(stored(pointerTo(['b']))), ['b']);
  t.same(pointersIn(stored(pointerTo(['b', 'c', 'd']))), ['b', 'c', 'd']);
  t.same(pointersIn({ batch: 1 }), []);
  t.same(pointersIn(jobPayload(nativeBatch(1))), []);
});
