import t from 'tap';
import { eventsOf } from '../../../exporters/otlphttp/observation-event.ts';
import type { BatchHold } from '../../../exporters/otlphttp/open-spans.ts';
import { MAX_HELD_EVENTS, OpenSpans } from '../../../exporters/otlphttp/open-spans.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { finish, start } from './rig.ts';

const MINUTE = 60_000;

/** Open spans, whose due ones a test takes itself. */
function opened() {
  const clock = fakeClock();
  let calls = 0;
  const spans = new OpenSpans(
    clock,
    MINUTE,
    () => void calls++,
    () => false,
  );
  const settled: unknown[] = [];
  /** Takes the events of one batch; returns the ids of the spans to send. */
  function take(...events: readonly Record<string, unknown>[]) {
    const batch = nativeBatch(events, { receivedAt: clock.now() });
    const hold: BatchHold = { batch, left: 0, settle: (error) => void settled.push(error) };
    return spans.take(eventsOf(batch).events, hold);
  }
  return { spans, clock, take, settled, calls: () => calls };
}

t.test('holds a start until its finish, and settles its batch then', async (t) => {
  const { spans, clock, take, settled } = opened();
  t.same(take(start('a'), start('b')), []);
  t.equal(spans.size, 2);
  const [ready, ...others] = take(finish('a'));
  t.equal(others.length, 0);
  t.equal(ready?.events.length, 2);
  if (ready !== undefined) spans.settle(ready);
  t.same(settled, [], 'the batch has another held event');
  clock.advance(MINUTE - 1);
  t.same(spans.due(), []);
  clock.advance(1);
  for (const due of spans.due()) spans.settle(due);
  t.same(settled, [undefined]);
});

t.test('a span that was not sent waits again with all its events', async (t) => {
  const { spans, take } = opened();
  take(start('a'));
  const [ready] = take(finish('a'));
  if (ready === undefined) throw new Error('the span has ended');
  spans.restore(ready);
  t.equal(spans.size, 1);
  t.equal(take(finish('a'))[0]?.events.length, 2, 'the finish comes again with its batch');
});

t.test('sends the oldest spans early above its number of events', async (t) => {
  const { spans, take, calls, clock } = opened();
  for (let i = 0; i < MAX_HELD_EVENTS; i++) take(start(`o${i}`));
  clock.advance(0);
  t.equal(calls(), 0, 'exactly at the limit');
  take(start('one more'));
  clock.advance(0);
  t.equal(calls(), 1);
  t.match(spans.due(), [{ events: [{ observation: { id: 'o0' } }] }]);
  t.equal(spans.size, MAX_HELD_EVENTS);
});

t.test('sends the oldest spans early above 64 MiB, and has room again', async (t) => {
  const { spans, take, calls, clock } = opened();
  const inputs = 'x'.repeat(4 * 1024 * 1024 - 1024);
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 8; i++) take(start(`o${i}`, { inputs }));
    clock.advance(0);
    t.equal(calls(), 0, 'each character counts two bytes');
    for (let i = 0; i < 8; i++) take(finish(`o${i}`));
    t.equal(spans.size, 0);
  }
  for (let i = 0; i < 9; i++) take(start(`o${i}`, { inputs }));
  clock.advance(0);
  t.equal(calls(), 1);
  t.equal(spans.due().length, 1);
});
