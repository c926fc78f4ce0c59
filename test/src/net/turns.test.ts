import t from 'tap';
import { turnsOf } from '../../../src/net/turns.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('16 pieces begin at once, and the others in later turns, in their order', async (t) => {
  const turns = turnsOf(16);
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

t.test('pieces that begin one by one never wait', async (t) => {
  const turns = turnsOf(1);
  for (let i = 0; i < 40; i++) {
    let hasBegun = false;
    turns.take(() => {
      hasBegun = true;
    });
    t.ok(hasBegun);
    await nextTurn();
  }
});

t.test('pieces without anything left to do take no place', async (t) => {
  const turns = turnsOf(1);
  const begun: string[] = [];
  turns.take(() => void begun.push('first'));
  for (let i = 0; i < 100; i++) turns.take(() => false);
  turns.take(() => void begun.push('second'));
  turns.take(() => void begun.push('third'));
  await nextTurn();
  t.same(begun, ['first', 'second']);
  await nextTurn();
  t.same(begun, ['first', 'second', 'third']);
});

t.test('a piece that takes another one does not begin it within its turn', async (t) => {
  const turns = turnsOf(1);
  const begun: string[] = [];
  turns.take(() => void begun.push('first'));
  turns.take(() => {
    begun.push('second');
    turns.take(() => void begun.push('third'));
  });
  await nextTurn();
  t.same(begun, ['first', 'second']);
  await nextTurn();
  t.same(begun, ['first', 'second', 'third']);
});
