import t from 'tap';
import {
  MAX_REFUSED,
  MAX_REFUSED_BUSY,
  REFUSED_WINDOW_MS,
  refusedCalls,
} from '../../../src/grpc/refused-calls.ts';
import { fakeClock } from '../../helper/clock.ts';

/** The number of the refused call at which the connection is to be cut. */
function refusedUntilCut(calls: ReturnType<typeof refusedCalls>, connection: object): number {
  for (let i = 1; i < 10_000; i++) if (calls.isTooMany(connection)) return i;
  return 0;
}

t.test('a connection without a call in progress may begin 10 refused calls in a row', async (t) => {
  const calls = refusedCalls(fakeClock());
  t.equal(MAX_REFUSED, 10);
  t.equal(refusedUntilCut(calls, {}), 11);
  const other = {};
  for (let i = 0; i < 10; i++) t.notOk(calls.isTooMany(other), 'each connection counts apart');
});

t.test('a connection with a call in progress may begin 1,000', async (t) => {
  const calls = refusedCalls(fakeClock());
  const connection = {};
  t.equal(MAX_REFUSED_BUSY, 1_000);
  const end = calls.begin(connection);
  calls.begin(connection)();
  t.equal(refusedUntilCut(calls, connection), 1_001);
  end();
  t.ok(calls.isTooMany(connection), 'the count goes on after the call');
});

t.test('a call with a place resets the count', async (t) => {
  const calls = refusedCalls(fakeClock());
  const connection = {};
  for (let i = 0; i < 10; i++) calls.isTooMany(connection);
  calls.begin(connection)();
  t.equal(refusedUntilCut(calls, connection), 11);
});

t.test('counts the refused calls of each second', async (t) => {
  const clock = fakeClock();
  const calls = refusedCalls(clock);
  const connection = {};
  for (let i = 0; i < 10; i++) calls.isTooMany(connection);
  clock.advance(REFUSED_WINDOW_MS - 1);
  t.ok(calls.isTooMany(connection));
  clock.advance(1);
  t.equal(refusedUntilCut(calls, connection), 11);
});
