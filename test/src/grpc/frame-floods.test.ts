import t from 'tap';
import {
  BYTES_OF_CALL,
  BYTES_OF_FRAME,
  CHECK_MS,
  frameFloods,
  MAX_BYTES,
  PENALTY_MS,
} from '../../../src/grpc/frame-floods.ts';
import { fakeClock } from '../../helper/clock.ts';

function watched(network: string | undefined = 'a') {
  const clock = fakeClock();
  const floods = frameFloods(clock);
  const connection = { bytesRead: 1_000_000 };
  let cuts = 0;
  const watch = floods.watch(connection, network, () => cuts++);
  const look = (): void => clock.advance(CHECK_MS);
  return { clock, floods, connection, watch, look, cuts: () => cuts };
}

t.test('cuts a connection with a byte more than allowed between two looks, once', (t) => {
  const { connection, look, cuts } = watched();
  for (let i = 0; i < 3; i++) {
    connection.bytesRead += MAX_BYTES;
    look();
  }
  t.equal(cuts(), 0);
  connection.bytesRead += MAX_BYTES + 1;
  look();
  t.equal(cuts(), 1);
  connection.bytesRead += 10 * MAX_BYTES;
  look();
  t.equal(cuts(), 1);
  t.end();
});

t.test('calls and their messages do not count, and each frame of a message costs', (t) => {
  const { connection, watch, look, cuts } = watched();
  const message = 25 * 1_048_576;
  watch.call();
  watch.message(message);
  connection.bytesRead += MAX_BYTES + BYTES_OF_CALL + 2 * message - BYTES_OF_FRAME;
  look();
  t.equal(cuts(), 0);
  for (let i = 0; i < 1_000; i++) watch.message(1);
  connection.bytesRead += MAX_BYTES + 2_000 - 1_000 * BYTES_OF_FRAME;
  look();
  t.equal(cuts(), 0);
  for (let i = 0; i < 1_000; i++) watch.message(1);
  connection.bytesRead += MAX_BYTES + 2_000 - 1_000 * BYTES_OF_FRAME + 1;
  look();
  t.equal(cuts(), 1);
  t.end();
});

t.test('the network of a flood waits for a second, and that of a proxy does not', (t) => {
  const { clock, floods, connection, look } = watched();
  t.equal(floods.penaltyOf('a'), 0);
  connection.bytesRead += MAX_BYTES + 1;
  look();
  t.equal(floods.penaltyOf('a'), PENALTY_MS);
  t.equal(floods.penaltyOf('b'), 0);
  clock.advance(PENALTY_MS - 1);
  t.equal(floods.penaltyOf('a'), 1);
  clock.advance(1);
  t.equal(floods.penaltyOf('a'), 0);
  const shared = watched(undefined);
  shared.connection.bytesRead += MAX_BYTES + 1;
  shared.look();
  t.equal(shared.cuts(), 1);
  t.equal(shared.floods.penaltyOf(undefined), 0);
  t.end();
});

t.test('looks at no connection that has ended', (t) => {
  const { connection, watch, look, cuts } = watched();
  watch.end();
  connection.bytesRead += MAX_BYTES + 1;
  look();
  t.equal(cuts(), 0);
  t.end();
});
