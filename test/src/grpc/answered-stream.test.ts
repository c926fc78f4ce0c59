import { EventEmitter } from 'node:events';
import type { ServerHttp2Stream } from 'node:http2';
import t from 'tap';
import { ANSWER_MS, boundAnswer, LINGER_MS } from '../../../src/grpc/answered-stream.ts';
import { fakeClock } from '../../helper/clock.ts';

/** A stream that shows how it was ended. */
function answered(readableEnded: boolean) {
  const clock = fakeClock();
  const ends: (number | 'cut' | undefined)[] = [];
  const stream = Object.assign(new EventEmitter(), {
    readableEnded,
    session: { destroy: () => ends.push('cut') },
    respond: () => {},
    close: (code?: number) => ends.push(code),
  });
  boundAnswer(stream as unknown as ServerHttp2Stream, clock);
  stream.respond();
  return { clock, stream, ends };
}

t.test('cuts the connection of a client that does not even take the reset', async (t) => {
  const { clock, ends } = answered(true);
  clock.advance(ANSWER_MS);
  t.strictSame(ends, [8], 'CANCEL');
  clock.advance(ANSWER_MS - 1);
  t.strictSame(ends, [8]);
  clock.advance(1);
  t.strictSame(ends, [8, 'cut']);
});

t.test('waits longer for a sent answer than for the rest of a message', async (t) => {
  const whole = answered(true);
  const halfway = answered(false);
  for (const { clock, stream } of [whole, halfway]) {
    stream.emit('finish');
    clock.advance(LINGER_MS);
  }
  t.strictSame(whole.ends, []);
  t.strictSame(halfway.ends, [0], 'without an error');
});

t.test('has no timer behind the end of a stream', async (t) => {
  const { clock, stream } = answered(false);
  t.equal(clock.pending(), 1);
  stream.emit('finish');
  t.equal(clock.pending(), 1);
  stream.emit('close');
  t.equal(clock.pending(), 0);
});
