import t from 'tap';
import type { Consumer } from '../../../src/component/component.ts';
import { WaitTimeout } from '../../../src/component/waits.ts';
import type { Batch } from '../../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../../src/model/errors.ts';
import type { DeliveryOutcome } from '../../../src/queue/delivery-policy.ts';
import { DeliveryPolicy } from '../../../src/queue/delivery-policy.ts';
import { anObservation, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const OPTIONS = { concurrency: 2, initialInterval: 100, maxInterval: 1000, random: () => 1 };

/** A policy of the branch `a`; `attempt` delivers a batch to a consumer that does as the function says. */
function policyWith(options: { readonly random?: () => number } = {}) {
  const clock = fakeClock();
  const logger = recordingLogger();
  const policy = new DeliveryPolicy('a', { clock, logger, ...OPTIONS, ...options });
  const attempt = (
    consume: () => void = () => {},
    { failures = 0, batch = nativeBatch(1) }: { failures?: number; batch?: Batch } = {},
  ): Promise<DeliveryOutcome> => {
    const consumer: Consumer = { consume: async () => consume() };
    const process = async (): Promise<Batch> => batch;
    return policy.attempt({ batchId: 'b', failures, process, isHeld: async () => true, consumer });
  };
  return { clock, logger, policy, attempt };
}

function fail(error: Error): () => never {
  return () => {
    throw error;
  };
}

const away = fail(new RetryableError('away', 'the exporter is away'));

/** A batch of observations whose items 1 and 3 could not be read. */
function partlyUnreadable(readable = 1): Batch {
  return {
    kind: 'observations',
    source: nativeBatch(4),
    observations: Array.from({ length: readable }, () => anObservation({ index: 0 })),
    failures: [
      { index: 1, code: 'unreadable_event', message: 'broken' },
      { index: 3, code: 'unreadable_event', message: 'broken too' },
    ],
  };
}

t.test('acknowledges a batch that the consumer took', async (t) => {
  const { attempt, logger } = policyWith();
  t.same(await attempt(), { kind: 'ack' });
  t.same(logger.lines, []);
});

t.test('dead-letters a batch after a permanent error', async (t) => {
  const { attempt, policy, logger } = policyWith();
  t.same(await attempt(fail(new PermanentError('too_bad', 'it is too bad'))), {
    kind: 'dead_letter',
    reason: { code: 'too_bad', message: 'it is too bad' },
  });
  t.match(logger.lines, [
    { level: 'error', message: 'Batch cannot be delivered; kept as a dead letter' },
  ]);
  t.equal(policy.restMs(), 0);
});

t.test('discards the batch of a deleted project', async (t) => {
  const { attempt } = policyWith();
  t.same(await attempt(fail(new PermanentError('project_deleted', 'it was deleted'))), {
    kind: 'discard',
    reason: 'project_deleted',
  });
});

t.test(
  'dead-letters the items that could not be read and those the consumer rejects',
  async (t) => {
    const { attempt } = policyWith();
    const failures = [{ index: 7, code: 'storage_refused', message: 'poison' }];
    const error = new PermanentError('storage_refused', 'poison', { failures });
    t.same(await attempt(fail(error), { batch: partlyUnreadable() }), {
      kind: 'dead_letter',
      reason: {
        code: 'unreadable_event',
        message: 'item 1: broken; item 3: broken too; item 7: poison',
        items: 3,
      },
    });
  },
);

t.test('does not call the consumer with a batch without readable items', async (t) => {
  const { attempt } = policyWith();
  const outcome = await attempt(() => t.fail('the consumer was called'), {
    batch: partlyUnreadable(0),
  });
  t.match(outcome, { kind: 'dead_letter', reason: { items: 2 } });
});

t.test('shortens the message of a dead letter to 1,000 characters', async (t) => {
  const { attempt } = policyWith();
  const messageOf = async (length: number): Promise<unknown> => {
    const outcome = await attempt(fail(new PermanentError('bad', 'x'.repeat(length))));
    return outcome.kind === 'dead_letter' ? outcome.reason.message : undefined;
  };
  t.equal(await messageOf(1000), 'x'.repeat(1000));
  t.equal(await messageOf(1001), `${'x'.repeat(1000)}…`);
});

t.test(
  'retries after any other error, with a backoff that doubles up to its maximum',
  async (t) => {
    const { attempt } = policyWith();
    const delays: unknown[] = [];
    for (let failures = 0; failures < 6; failures++) {
      const outcome = await attempt(fail(new Error('a defect')), { failures });
      t.match(outcome, { kind: 'retry', reason: 'a defect' });
      delays.push(outcome.kind === 'retry' ? outcome.afterMs : undefined);
    }
    t.same(delays, [100, 200, 400, 800, 1000, 1000]);
  },
);

t.test('makes at least half of the backoff random', async (t) => {
  const { attempt } = policyWith({ random: () => 0 });
  t.match(await attempt(away), { kind: 'retry', afterMs: 50 });
});

t.test('waits as long as the consumer asks if that is longer than the backoff', async (t) => {
  const { attempt } = policyWith();
  const busyFor = (retryAfterMs: number) => fail(new RetryableError('busy', '', { retryAfterMs }));
  t.match(await attempt(busyFor(5000)), { kind: 'retry', afterMs: 5000 });
  t.match(await attempt(busyFor(99)), { kind: 'retry', afterMs: 100 });
});

t.test('retries a batch that could not be processed', async (t) => {
  const { policy } = policyWith();
  const outcome = await policy.attempt({
    batchId: 'b',
    failures: 0,
    process: () => Promise.reject(new Error('no memory')),
    isHeld: async () => true,
    consumer: { consume: () => Promise.reject(new Error('unreachable')) },
  });
  t.match(outcome, { kind: 'retry', reason: 'no memory' });
});

t.test('does not deliver a batch whose lease was lost while it was processed', async (t) => {
  const { policy, logger } = policyWith();
  const asked: string[] = [];
  const outcome = await policy.attempt({
    batchId: 'b',
    failures: 0,
    async process() {
      asked.push('process');
      return nativeBatch(1);
    },
    async isHeld() {
      asked.push('isHeld');
      return false;
    },
    consumer: { consume: async () => void asked.push('consume') },
  });
  t.same(outcome, { kind: 'lost' });
  t.same(asked, ['process', 'isHeld']);
  t.match(logger.lines, [{ level: 'info', fields: { batch: 'b' } }]);
  t.equal(policy.restMs(), 0, 'it is no failure of the consumer');
});

t.test('retries a batch whose lease could not be confirmed', async (t) => {
  const { policy } = policyWith();
  const outcome = await policy.attempt({
    batchId: 'b',
    failures: 0,
    process: async () => nativeBatch(1),
    isHeld: () => Promise.reject(new RetryableError('storage_failed', 'the store is away')),
    consumer: { consume: () => Promise.reject(new Error('unreachable')) },
  });
  t.match(outcome, { kind: 'retry', reason: 'the store is away' });
});

t.test('rests when as many attempts failed in a row as run at the same time', async (t) => {
  const { attempt, policy, clock } = policyWith();
  await attempt(away);
  t.equal(policy.restMs(), 0, 'one failure of two');
  await attempt(away);
  t.equal(policy.restMs(), 100);
  await attempt(away);
  t.equal(policy.restMs(), 200, 'a further failure makes the rest longer');
  clock.advance(199);
  t.equal(policy.restMs(), 1);
  clock.advance(1);
  t.equal(policy.restMs(), 0);
});

t.test('does not rest after attempts that were abandoned at their bound', async (t) => {
  const { attempt, policy } = policyWith();
  const abandoned = fail(new WaitTimeout('delivery to a', 5000));
  for (let i = 0; i < 3; i++) t.match(await attempt(abandoned), { kind: 'retry', isTimeout: true });
  t.equal(policy.restMs(), 0);
});

t.test('ends the rest with a success, and counts failures from zero again', async (t) => {
  const { attempt, policy } = policyWith();
  await attempt(away);
  await attempt(away);
  await attempt();
  t.equal(policy.restMs(), 0);
  await attempt(away);
  t.equal(policy.restMs(), 0);
});

t.test('a clock that goes back does not prolong a rest', async (t) => {
  const { attempt, clock, policy } = policyWith();
  await attempt(away);
  await attempt(away);
  t.equal(policy.restMs(), 100);
  clock.set(clock.now() - 3_600_000);
  t.equal(policy.restMs(), 0);
  await attempt(away);
  t.equal(policy.restMs(), 200);
  clock.advance(150);
  t.equal(policy.restMs(), 50);
});
