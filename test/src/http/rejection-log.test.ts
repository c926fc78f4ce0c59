import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import { logRejections } from '../../../src/http/rejection-log.ts';
import type { Rejection } from '../../../src/model/rejection.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import type { RejectionEntry } from '../../../src/tenancy/contract.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { aHead } from '../../helper/sink.ts';

/** The entries of a batch with so many items without a trace id, and one without a name. */
function entriesOf(withoutTrace: number): readonly RejectionEntry[] {
  const entries: RejectionEntry[] = [];
  const store = { rejections: { record: (entry: RejectionEntry) => entries.push(entry) } };
  const rejections: Rejection[] = Array.from({ length: withoutTrace }, (_, index) => ({
    ...{ index, id: `item-${index}`, code: 'missing_field' as const },
    reason: `events[${index}].trace_id is required`,
  }));
  rejections.push({
    ...{ index: withoutTrace, code: 'invalid_field' as const },
    reason: `events[${withoutTrace}].name must be a string`,
  });
  const pipeline = { offers: [offer(STORE, store as unknown as Store)] };
  logRejections(pipeline, aHead(), nativeBatch(1, { rejections }));
  return entries;
}

t.test('lists up to ten rejections of a request one by one', async (t) => {
  const entries = entriesOf(9);
  t.equal(entries.length, 10);
  t.match(entries[8], { reason: 'events[8].trace_id is required', itemId: 'item-8', count: 1 });
});

t.test('joins more rejections by code and reason, whatever their positions', async (t) => {
  const entries = entriesOf(10);
  t.match(entries, [
    { reason: 'events[*].trace_id is required', itemId: 'item-0', count: 10 },
    { reason: 'events[*].name must be a string', itemId: null, count: 1 },
  ]);
  t.equal(entries.length, 2);
});
