import t from 'tap';
import { turnsOf } from '../../../src/net/turns.ts';

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('16 pieces begin at once, and the others in later turns, in their order', async (t) => {
  const turns = turnsOf(16).laneOf({}, () => 'a');
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
  const turns = turnsOf(1).laneOf({}, () => 'a');
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
  const turns = turnsOf(1).laneOf({}, () => 'a');
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
  const turns = turnsOf(1).laneOf({}, () => 'a');
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

t.test('networks begin in rotation, and so do the connections of a network', async (t) => {
  const turns = turnsOf(2);
  const begun: string[] = [];
  const send = (network: string, name: string, pieces: number): void => {
    const lane = turns.laneOf({}, () => network);
    for (let i = 1; i <= pieces; i++) lane.take(() => begun.push(`${name}${i}`));
  };
  send('a', 'first', 6);
  send('a', 'second', 2);
  send('b', 'third', 1);
  t.same(begun, ['first1', 'first2']);
  await nextTurn();
  t.same(begun.slice(2), ['first3', 'third1']);
  await nextTurn();
  t.same(begun.slice(4), ['second1', 'first4']);
  for (let i = 0; i < 2; i++) await nextTurn();
  t.same(begun.slice(6), ['second2', 'first5', 'first6']);
});

t.test('a network with many connections leaves every other place to another one', async (t) => {
  const turns = turnsOf(2);
  const begun: string[] = [];
  for (let i = 0; i < 1_000; i++) turns.laneOf({}, () => 'many').take(() => begun.push('many'));
  const lane = turns.laneOf({}, () => 'one');
  for (let i = 0; i < 3; i++) lane.take(() => begun.push('one'));
  for (let i = 0; i < 3; i++) await nextTurn();
  t.equal(begun.filter((name) => name === 'one').length, 3);
  t.equal(begun.length, 8);
});

t.test('pieces without anything left to do give their place to the next connection', async (t) => {
  const turns = turnsOf(1);
  const begun: string[] = [];
  const gone = turns.laneOf({}, () => 'a');
  gone.take(() => void begun.push('first'));
  for (let i = 0; i < 100; i++) gone.take(() => false);
  turns.laneOf({}, () => 'b').take(() => void begun.push('second'));
  await nextTurn();
  t.same(begun, ['first', 'second']);
});

t.test('a connection keeps its lane, and its network is named once', (t) => {
  const turns = turnsOf(1);
  const connection = {};
  let named = 0;
  const networkOf = (): string => `network ${++named}`;
  t.equal(turns.laneOf(connection, networkOf), turns.laneOf(connection, networkOf));
  t.equal(named, 1);
  t.end();
});
