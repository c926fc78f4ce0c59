import t from 'tap';
import type { IdempotencyClaim } from '../../../../src/component/component.ts';
import type { DurableQueue, QueueEntry } from '../../../../src/queue/queue.ts';
import { joinQueues } from '../../../../src/sqlite/queue/joined-queue.ts';
import { queueContract } from '../../../contract/queue.ts';
import { aTenant, nativeBatch } from '../../../helper/batches.ts';
import { joinedQueues } from '../../../helper/places.ts';

t.test('a queue joined with leftovers keeps the contract', (t) => {
  queueContract(t, joinedQueues);
  t.end();
});

/** A queue with one entry, or whose file cannot be read. */
function leasing(isReadable: boolean): DurableQueue {
  return {
    async lease(): Promise<QueueEntry[]> {
      if (!isReadable) throw new Error('the file cannot be read');
      return [{ seq: 1, batch: nativeBatch(1), attempts: 0 }];
    },
  } as unknown as DurableQueue;
}

t.test('entries that are leased survive the failure of another file', async (t) => {
  const leased = await joinQueues(leasing(false), [leasing(true)]).lease('a', 9, 1e9);
  t.equal(leased.length, 1);
  await t.rejects(joinQueues(leasing(true), [leasing(false)]).lease('a', 9, 1e9), {
    message: 'the file cannot be read',
  });
});

t.test('a claim ends if a leftover has the answer, or cannot be read', async (t) => {
  let held = 0;
  const claiming = (claim: () => IdempotencyClaim): DurableQueue =>
    ({ idempotency: { claim: async () => claim() } }) as unknown as DurableQueue;
  const fresh = () => {
    held++;
    return { state: 'new', release: () => void held-- } as const;
  };
  const claimBeside = (...leftovers: readonly (() => IdempotencyClaim)[]) =>
    joinQueues(claiming(fresh), leftovers.map(claiming)).idempotency.claim(
      aTenant(),
      'key',
      Buffer.alloc(32),
    );
  const claimed = await claimBeside(fresh, fresh);
  t.equal(claimed.state, 'new');
  t.equal(held, 1, 'that of the own queue');
  if (claimed.state === 'new') claimed.release();
  t.equal((await claimBeside(fresh, () => ({ state: 'conflict' }))).state, 'conflict');
  t.equal(held, 0);
  const unreadable = () => {
    throw new Error('the file cannot be read');
  };
  await t.rejects(claimBeside(unreadable));
  t.equal(held, 0);
});
