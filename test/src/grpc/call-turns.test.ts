import t from 'tap';
import { CALLS_PER_TURN, callTurns } from '../../../src/grpc/call-turns.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('16 calls begin at once, and the others in later turns, in their order', async (t) => {
  t.equal(CALLS_PER_TURN, 16);
  const turns = callTurns();
  const begun: number[] = [];
  for (let i = 0; i < 40; i++) turns.take(() => begun.push(i));
  t.equal(begun.length, 16);
  await nextTurn();
  t.equal(begun.length, 32);
  turns.take(() => begun.push(40));
  await nextTurn();
  await nextTurn();
  t.same(
    begun,
    Array.from({ length: 41 }, (_, i) => i),
  );
});

t.test('calls that begin one by one never wait', async (t) => {
  const turns = callTurns();
  for (let i = 0; i < 40; i++) {
    let hasBegun = false;
    turns.take(() => {
      hasBegun = true;
    });
    t.ok(hasBegun);
    await nextTurn();
  }
});
