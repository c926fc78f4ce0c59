import type { Test } from 'tap';
import t from 'tap';
import { Waits } from '../../../src/component/waits.ts';
import { PermanentError } from '../../../src/model/errors.ts';
import { startDelivery } from '../../../src/queue/delivery.ts';
import type { QueueEntry, QueueLeases } from '../../../src/queue/queue.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { createSink } from '../../helper/sink.ts';

const STEP_MS = 1000;
const ATTEMPT_MS = 5000;
/** The pause after a failed lease. */
const LEASE_RETRY_MS = 1000;

/** Delivery from a queue whose leases and writes a test ends. */
function rig(t: Test, concurrency = 1) {
  const clock = fakeClock();
  const logger = recordingLogger();
  const waits = new Waits({ clock, logger, stepTimeout: STEP_MS });
  const sink = createSink();
  const leases: PromiseWithResolvers<QueueEntry[]>[] = [];
  const writes: { readonly call: string; readonly done: PromiseWithResolvers<void> }[] = [];
  let isOver = false;
  const write = (call: string): Promise<void> => {
    const done = Promise.withResolvers<void>();
    writes.push({ call, done });
    if (isOver) done.resolve();
    return done.promise;
  };
  const queue: QueueLeases = {
    lease() {
      const lease = Promise.withResolvers<QueueEntry[]>();
      leases.push(lease);
      return lease.promise;
    },
    onAvailable: () => () => {},
    ack: (_branch, _entries, withinMs) => write(`ack within ${withinMs} ms`),
    nack: (_branch, _entry, delayMs, reason) => write(`nack ${delayMs} ${reason}`),
    deadLetter: () => write('deadLetter'),
    discard: () => write('discard'),
  };
  const progress: string[] = [];
  const options = { queue, clock, logger, concurrency, initialInterval: 100, maxInterval: 100 };
  const delivery = startDelivery(
    {
      ...options,
      random: () => 1,
      bounds: { waits, attemptTimeout: ATTEMPT_MS },
      progress: {
        taken: () => progress.push('taken'),
        made: () => progress.push('made'),
        abandoned: () => progress.push('abandoned'),
      },
    },
    [{ name: 'a', process: async (batch) => batch, consumer: sink }],
  );
  t.teardown(() => {
    isOver = true;
    return delivery.stop(AbortSignal.abort());
  });
  return { clock, logger, sink, leases, writes, delivery, progress };
}

let seq = 0;
const entry = (): QueueEntry => ({ seq: ++seq, batch: nativeBatch(1), attempts: 0 });

const turns = async (): Promise<void> => {
  for (let left = 5; left > 0; left--) await new Promise(setImmediate);
};

t.test('leases again after a lease that never ends', async (t) => {
  const { clock, leases, logger, sink, progress } = rig(t);
  clock.advance(STEP_MS - 1);
  await turns();
  t.same(logger.lines, []);
  clock.advance(1);
  await turns();
  t.match(logger.lines[0], { level: 'warn', fields: { wait: 'lease in a', boundMs: STEP_MS } });
  clock.advance(LEASE_RETRY_MS);
  await turns();
  t.equal(leases.length, 2);
  t.same(progress, []);
  leases[1]?.resolve([entry()]);
  await sink.holds(1);
});

t.test('delivers the entries of an abandoned lease that ended after all', async (t) => {
  const { clock, leases, sink, delivery } = rig(t);
  clock.advance(STEP_MS);
  await turns();
  const late = entry();
  leases[0]?.resolve([late]);
  await sink.holds(1);
  t.same(sink.ids(), [late.batch.id]);
  await turns();
  t.equal(delivery.inFlight(), 0);
});

t.test('retries an attempt that never ends at its bound, and leases the next entry', async (t) => {
  const { clock, leases, sink, writes, logger, delivery, progress } = rig(t, 2);
  const late = Promise.withResolvers<void>();
  sink.behave(() => late.promise);
  leases[0]?.resolve([entry()]);
  await turns();
  t.equal(delivery.inFlight(), 1);
  clock.advance(ATTEMPT_MS - 1);
  await turns();
  t.same(writes, []);
  clock.advance(1);
  await turns();
  t.match(writes, [{ call: /^nack 100 delivery to a did not end within 5000 ms$/ }]);
  t.ok(logger.lines.some(({ fields }) => fields['wait'] === 'delivery to a'));
  t.equal(delivery.inFlight(), 0);
  writes[0]?.done.resolve();
  await turns();
  t.same(progress, ['taken', 'abandoned'], 'the nack of an abandoned attempt is no progress');
  late.resolve();
  await turns();
  t.equal(writes.length, 1, 'the late end of the attempt changes nothing');
});

t.test('frees the place of an entry whose dead letter is not saved in time', async (t) => {
  const { clock, leases, sink, writes, delivery, logger } = rig(t);
  sink.behave(() => {
    throw new PermanentError('unreadable', 'it cannot be read');
  });
  leases[0]?.resolve([entry()]);
  await turns();
  t.match(writes, [{ call: 'deadLetter' }]);
  clock.advance(STEP_MS - 1);
  await turns();
  t.equal(delivery.inFlight(), 1);
  clock.advance(1);
  await turns();
  t.equal(delivery.inFlight(), 0);
  t.ok(logger.lines.some(({ fields }) => fields['wait'] === 'dead_letter in a'));
});

t.test('counts a lease and a saved outcome as progress', async (t) => {
  const { leases, sink, writes, progress } = rig(t);
  leases[0]?.resolve([entry()]);
  await sink.holds(1);
  await turns();
  t.same(progress, ['taken']);
  t.match(writes, [{ call: 'ack within 250 ms' }], 'it may wait for the next append');
  writes[0]?.done.resolve();
  await turns();
  t.same(progress, ['taken', 'made']);
});

t.test('rests only while the policy does', async (t) => {
  const { clock, leases, sink, writes, delivery } = rig(t);
  sink.behave('retryable');
  t.notOk(delivery.isResting());
  leases[0]?.resolve([entry()]);
  await turns();
  writes[0]?.done.resolve();
  t.ok(delivery.isResting());
  clock.advance(100);
  t.notOk(delivery.isResting());
});
