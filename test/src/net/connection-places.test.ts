import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import type { Occupancy } from '../../../src/net/connection-places.ts';
import { ConnectionPlaces, MAX_BESIDE } from '../../../src/net/connection-places.ts';
import { Descriptors } from '../../../src/net/descriptors.ts';

let ports = 0;

/** A client's connection. */
type Client = Socket & {
  bytesRead: number;
  isDestroyed: boolean;
  isInterrupted: boolean;
  place: Occupancy | undefined;
};

function clientAt(remoteAddress: string): Client {
  const client = Object.assign(new EventEmitter(), {
    ...{ remoteAddress, remotePort: ++ports, localAddress: '192.0.2.1', bytesRead: 0 },
    ...{ isDestroyed: false, isInterrupted: false, place: undefined },
    destroy: () => {
      client.isDestroyed = true;
    },
  });
  return client as unknown as Client;
}

function placesOf(max: number, maxPerAddress = max) {
  const time = { now: 0 };
  const descriptors = new Descriptors(Number.POSITIVE_INFINITY);
  const places = new ConnectionPlaces({ max, maxPerAddress }, { now: () => time.now }, descriptors);
  const enter = (client: Client): boolean => places.enter(client, client.remoteAddress ?? '');
  const idle = (address: string): Client => {
    const client = clientAt(address);
    if (!enter(client)) throw new Error(`${address} has no place`);
    return client;
  };
  /** Its request has arrived. */
  const busy = (address: string): Client => {
    const client = idle(address);
    client.place = places.occupy(client);
    return client;
  };
  /** Its request arrives. */
  const slow = (address: string): Client => {
    const client = busy(address);
    client.place?.yields(() => {
      client.isInterrupted = true;
    });
    return client;
  };
  return { places, time, enter, idle, busy, slow };
}

const many = (count: number, make: () => Client): Client[] => Array.from({ length: count }, make);
const interrupted = (clients: readonly Client[]): number[] =>
  clients.flatMap(({ isInterrupted }, i) => (isInterrupted ? [i] : []));
const A = '192.0.2.10';
const B = '192.0.2.11';
const C = '192.0.2.12';

t.test('a network gets places up to its share, and none beyond it', async (t) => {
  for (const max of [6, 7]) {
    const { enter, slow, places } = placesOf(max);
    const held = many(max, () => slow(A));
    for (let own = 1; own <= 3; own++) {
      const client = clientAt(B);
      t.equal(enter(client), true, `place ${own} of ${max}`);
      places.occupy(client).yields(() => t.fail('no connection within the share gives way'));
      t.equal(interrupted(held).length, own);
    }
    const beyond = clientAt(B);
    t.equal(enter(beyond), false);
    t.equal(beyond.isDestroyed, true);
    t.equal(interrupted(held).length, 3);
    t.equal(enter(clientAt(A)), false, 'the other one gets no place back');
  }
});

t.test('one network alone, and two with equal shares, interrupt no request', async (t) => {
  for (const addresses of [
    [A, A],
    [A, B],
  ]) {
    const { enter, slow } = placesOf(4);
    const held = addresses.flatMap((address) => many(2, () => slow(address)));
    for (const address of addresses) t.equal(enter(clientAt(address)), false);
    t.strictSame(interrupted(held), []);
  }
});

t.test('with more networks than places, each has one', async (t) => {
  const { enter, slow } = placesOf(3);
  const held = [slow(A), slow(A), slow(B)];
  const third = clientAt(C);
  t.equal(enter(third), true);
  t.strictSame(interrupted(held), [0]);
  const { enter: next, slow: one } = placesOf(3);
  const all = [one(A), one(B), one(C)];
  t.equal(next(clientAt('192.0.2.13')), false);
  t.strictSame(interrupted(all), []);
});

t.test('the addresses of an IPv6 /64 have one share together', async (t) => {
  const { enter, slow } = placesOf(4);
  let host = 0;
  const held = many(4, () => slow(`2001:db8:0:1::${++host}`));
  t.equal(enter(clientAt('2001:db8:0:1:ffff::1')), false);
  t.strictSame(interrupted(held), []);
  for (const address of ['2001:db8:0:2::1', '2001:db8:0:2:1::1']) slow(address);
  t.equal(enter(clientAt('2001:db8:0:2:2::1')), false);
  t.strictSame(interrupted(held), [0, 1]);
});

t.test('an idle connection gives way before a busy one', async (t) => {
  const { enter, idle, slow } = placesOf(3);
  const [first, unused, last] = [slow(A), idle(A), slow(A)];
  t.equal(enter(clientAt(B)), true);
  t.equal(unused.isDestroyed, true);
  t.strictSame(interrupted([first, last]), []);
});

t.test('the slowest body gives way, and of silent ones the oldest', async (t) => {
  const { enter, slow, busy, time } = placesOf(4);
  const fast = slow(A);
  time.now = 1_000;
  const [older, newer, arrived] = [slow(A), slow(A), busy(A)];
  newer.bytesRead = 10;
  time.now = 5_000;
  fast.bytesRead = 20_000_000;
  t.equal(enter(clientAt(B)), true);
  t.equal(enter(clientAt(B)), true);
  t.strictSame(interrupted([fast, older, newer, arrived]), [1, 2]);
  t.equal(older.isInterrupted, true);
  t.equal(older.isDestroyed, false, 'it takes its answer');
});

t.test('counts the bytes of the present request, not of earlier ones', async (t) => {
  const { enter, slow, places, time } = placesOf(2);
  const kept = slow(A);
  kept.bytesRead = 1_000_000;
  kept.place?.leave();
  time.now = 10;
  places.occupy(kept).yields(() => {
    kept.isInterrupted = true;
  });
  const other = slow(A);
  other.bytesRead = 1_000;
  time.now = 1_000;
  t.equal(enter(clientAt(B)), true);
  t.strictSame(interrupted([kept, other]), [0]);
});

t.test('a request that arrived keeps its connection until it is answered', async (t) => {
  const { enter, busy, slow, places } = placesOf(4);
  const [arrived, both, withdrawn, last] = [busy(A), slow(A), busy(A), busy(A)];
  places.occupy(both);
  withdrawn.place?.yields(() => {
    withdrawn.isInterrupted = true;
  })();
  const others = [busy(B), busy(B)];
  t.equal(enter(clientAt(B)), false, 'a place beside the bound is within the share, too');
  t.equal(enter(clientAt(A)), false);
  const all = [arrived, both, withdrawn, last, ...others];
  const destroyed = () => all.flatMap(({ isDestroyed }, i) => (isDestroyed ? [i] : []));
  t.strictSame(interrupted(all), []);
  others[0]?.place?.leave();
  withdrawn.place?.leave();
  t.strictSame(destroyed(), [], 'the answer is sent before');
  await nextTurn();
  t.strictSame(destroyed(), [2]);
  arrived.place?.leave();
  last.place?.leave();
  await nextTurn();
  t.strictSame(destroyed(), [0, 2], 'as many as there are beside the bound');
});

t.test(`at most ${MAX_BESIDE} connections are beside the bound`, async (t) => {
  const { enter, busy } = placesOf(4 * MAX_BESIDE);
  for (let i = 0; i < 4 * MAX_BESIDE; i++) busy(A);
  for (let i = 0; i < MAX_BESIDE; i++) busy(B);
  t.equal(enter(clientAt(B)), false);
});

t.test('takes the place from the next network above its share, or an own idle one', async (t) => {
  const { enter, busy, slow, idle } = placesOf(9);
  for (let i = 0; i < 4; i++) busy(A);
  const held = many(4, () => slow(B));
  const own = idle(C);
  t.equal(enter(clientAt(C)), true);
  t.strictSame(interrupted(held), [0], 'the requests of the first one arrived');
  t.equal(enter(clientAt(C)), true);
  t.equal(own.isDestroyed, false, 'it is within the share, beside the bound');
  t.equal(enter(clientAt(C)), true);
  t.equal(own.isDestroyed, true, 'beyond the share');
});

t.test(`beyond ${MAX_BESIDE} that take their answer, connections are closed at once`, async (t) => {
  const { enter, slow } = placesOf(2 * MAX_BESIDE + 4);
  const held = many(2 * MAX_BESIDE + 4, () => slow(A));
  const enterNext = () => t.equal(enter(clientAt(B)), true);
  for (let i = 0; i < MAX_BESIDE; i++) enterNext();
  t.equal(interrupted(held).length, MAX_BESIDE);
  t.equal(held.filter(({ isDestroyed }) => isDestroyed).length, 0);
  enterNext();
  t.equal(held.filter(({ isDestroyed }) => isDestroyed).length, 1, 'one past the bound');
  held.find(({ isInterrupted }) => isInterrupted)?.emit('close');
  enterNext();
  t.equal(interrupted(held).length, MAX_BESIDE + 1, 'one has left');
});

type Kind = 'idle' | 'busy' | 'slow';

t.test('whatever arrives, only networks above their share lose requests', async (t) => {
  const kinds = fc.constantFrom<Kind>('idle', 'busy', 'slow');
  const arrivals = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), kinds), { maxLength: 60 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), arrivals, (max, list) => {
      const { enter, places } = placesOf(max);
      const open = new Map<Client, Kind>();
      const heldBy = (address: string | undefined) =>
        [...open.keys()].filter(({ remoteAddress }) => remoteAddress === address).length;
      for (const [host, kind] of list) {
        const client = clientAt(`192.0.2.${host}`);
        const { remoteAddress: own } = client;
        const networks = new Set([...open.keys(), client].map((one) => one.remoteAddress));
        const share = Math.max(1, Math.floor(max / networks.size));
        const isWithin = heldBy(own) < share;
        const canTake = [...open].some(
          ([one, its]) => its !== 'busy' && heldBy(one.remoteAddress) > share,
        );
        const isFull = open.size >= max;
        const hasIdle = [...open.values()].includes('idle');
        const isIn = enter(client);
        if (!isFull && !isIn) return false;
        if (isWithin && canTake && !isIn) return false;
        const isAbove = [...open.keys()].some((one) => heldBy(one.remoteAddress) > share);
        if (isFull && isIn && !(isWithin && isAbove) && !hasIdle) return false;
        const gone = [...open].filter(([one]) => one.isDestroyed || one.isInterrupted);
        if (gone.length > (isFull && isIn ? 1 : 0)) return false;
        for (const [one, its] of gone) {
          if (its === 'busy') return false;
          if (its === 'slow' && !(isWithin && heldBy(one.remoteAddress) > share)) return false;
          open.delete(one);
        }
        if (!isIn) continue;
        open.set(client, kind);
        if (open.size > max + MAX_BESIDE) return false;
        if (kind === 'idle') continue;
        const place = places.occupy(client);
        if (kind === 'slow') {
          place.yields(() => {
            client.isInterrupted = true;
          });
        }
      }
      return true;
    }),
  );
  t.pass('holds for drawn arrivals');
});
