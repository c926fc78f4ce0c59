import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import t from 'tap';
import { ConnectionPlaces } from '../../../src/net/connection-places.ts';
import { Descriptors } from '../../../src/net/descriptors.ts';
import { fakeClock } from '../../helper/clock.ts';

/** A socket that has a descriptor, and tells when it is destroyed. */
function socketOf(fd: number | undefined, remotePort: number, remoteAddress = '192.0.2.1') {
  const parts = { remoteAddress, remotePort, localAddress: '127.0.0.1', bytesRead: 0 };
  const socket = Object.assign(new EventEmitter(), parts, {
    _handle: fd === undefined ? null : { fd },
    isDestroyed: false,
    destroy: () => {
      socket.isDestroyed = true;
    },
  });
  return socket;
}

const enter = (places: ConnectionPlaces, socket: ReturnType<typeof socketOf>): boolean =>
  places.enter(socket as unknown as Socket, socket.remoteAddress);

t.test('keeps a sixteenth of all descriptors, at least 8 and at most 64', async (t) => {
  for (const [limit, last, lastOfOperators] of [
    [64, 55, 59],
    [320, 299, 309],
    [65_536, 65_471, 65_503],
  ] as const) {
    const descriptors = new Descriptors(limit);
    for (const [isForOperators, most] of [
      [false, last],
      [true, lastOfOperators],
    ] as const) {
      t.equal(
        descriptors.areShortFor(socketOf(most, 1), isForOperators),
        false,
        `${limit}: ${most}`,
      );
      t.equal(descriptors.areShortFor(socketOf(most + 1, 1), isForOperators), true, `${limit}`);
    }
    t.equal(descriptors.shortages, 2);
  }
});

t.test('a connection without a number, or without a limit, is kept', async (t) => {
  t.equal(new Descriptors(64).areShortFor(socketOf(undefined, 1), false), false);
  t.equal(new Descriptors(64).areShortFor(socketOf(-1, 1), false), false);
  t.equal(new Descriptors(Infinity).areShortFor(socketOf(1_000_000, 1), false), false);
});

t.test('tells its watchers about each shortage', async (t) => {
  const descriptors = new Descriptors(64);
  let told = 0;
  const end = descriptors.watch(() => told++);
  descriptors.areShortFor(socketOf(56, 1), false);
  descriptors.areShortFor(socketOf(55, 1), false);
  end();
  descriptors.areShortFor(socketOf(56, 1), false);
  t.equal(told, 1);
});

t.test(
  'closes a connection that took a reserved descriptor, and the oldest idle one',
  async (t) => {
    const places = new ConnectionPlaces(
      { max: 100, maxPerAddress: 100 },
      fakeClock(),
      new Descriptors(64),
    );
    const [busy, idle, late] = [socketOf(53, 1), socketOf(54, 2), socketOf(56, 3)];
    t.equal(enter(places, busy), true);
    t.equal(enter(places, idle), true);
    places.occupy(busy);
    t.equal(enter(places, late), false);
    t.strictSame(
      [busy, idle, late].map(({ isDestroyed }) => isDestroyed),
      [false, true, true],
    );
    t.equal(enter(places, socketOf(54, 4)), true, 'the next one takes the free descriptor');
  },
);

t.test('closes an idle connection of another listener if its own are all busy', async (t) => {
  const descriptors = new Descriptors(80);
  const bounds = { max: 100, maxPerAddress: 100 };
  const short = new ConnectionPlaces(bounds, fakeClock(), descriptors);
  const other = new ConnectionPlaces(bounds, fakeClock(), descriptors);
  const ofOperators = new ConnectionPlaces(
    { ...bounds, isForOperators: true },
    fakeClock(),
    descriptors,
  );
  const operator = socketOf(20, 1);
  enter(ofOperators, operator);
  const busy = socketOf(21, 2);
  enter(short, busy);
  short.occupy(busy);
  const idle = socketOf(22, 3);
  enter(other, idle);
  t.equal(enter(short, socketOf(79, 4)), false);
  t.equal(idle.isDestroyed, true);
  t.equal(busy.isDestroyed, false);
  t.equal(operator.isDestroyed, false, 'those of operators stay open');
  t.equal(enter(short, socketOf(22, 5)), true, 'the next attempt has the descriptor');
});

const ANOTHER = '192.0.2.2';

/** Listeners of one process with 64 descriptors, of which 8 are reserved. */
function listeners() {
  const time = { now: 1_000_000 };
  const descriptors = new Descriptors(64);
  const create = () =>
    new ConnectionPlaces({ max: 100, maxPerAddress: 100 }, { now: () => time.now }, descriptors);
  let ports = 0;
  const connect = (places: ConnectionPlaces, fd: number, address?: string) => {
    const socket = socketOf(fd, ++ports, address);
    return { socket, entered: enter(places, socket) };
  };
  /** Its request arrives, and never ends. */
  const slow = (places: ConnectionPlaces, fd: number, address?: string) => {
    const { socket } = connect(places, fd, address);
    places.occupy(socket).yields(() => socket.destroy());
    return socket;
  };
  return { time, create, connect, slow };
}

t.test('without an idle one, a network above its share gives a descriptor up', async (t) => {
  const { time, create, connect, slow } = listeners();
  const places = create();
  const held = [52, 53, 54, 55].map((fd) => slow(places, fd));
  const closed = () => held.map(({ isDestroyed }) => isDestroyed);
  t.equal(connect(places, 56).entered, false);
  t.strictSame(closed(), [false, false, false, false], 'it is alone');
  t.equal(connect(places, 56, ANOTHER).entered, false);
  t.strictSame(closed(), [true, false, false, false]);
  t.equal(connect(places, 52).entered, false, 'it does not get the descriptor back');
  t.equal(connect(places, 52, ANOTHER).entered, true, 'the next attempt has it');
  t.strictSame(closed(), [true, true, false, false], 'within the places that are left');
  time.now += 10_000;
  t.equal(connect(places, 53).entered, true, 'the bound ends');
});

t.test('the largest listener gives a descriptor up for one that has a few', async (t) => {
  const { create, connect, slow } = listeners();
  const [few, most] = [create(), create()];
  const own = slow(few, 40, ANOTHER);
  const held = [53, 54, 55].map((fd) => slow(most, fd));
  t.equal(connect(few, 56, ANOTHER).entered, false);
  t.strictSame(
    held.map(({ isDestroyed }) => isDestroyed),
    [true, false, false],
  );
  t.equal(own.isDestroyed, false);
  t.equal(connect(few, 53, ANOTHER).entered, true);
  t.equal(connect(most, 56).entered, false);
  t.equal(own.isDestroyed, false, 'a network above its share takes none of another one');
});
