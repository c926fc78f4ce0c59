import fc from 'fast-check';
import t from 'tap';
import type { BudgetSettings, ByteReservation } from '../../../src/http/bytes-in-flight.ts';
import { boundBytesInFlight, MAX_WAIT_MS } from '../../../src/http/bytes-in-flight.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { fakeClock } from '../../helper/clock.ts';

const REFUSED = { code: 'unavailable', retryAfterMs: 1000 };
/** After so long a waiting request takes bytes back from bodies that still arrive. */
const PATIENCE_MS = 2_000;
/** Without a grant for so long, a body arrives no more. */
const ARRIVING_MS = 1_000;

/** A budget of 1,000 bytes, shares of 250, and a reserve of 120: 40 for each level. */
function budgetOf(more: Partial<BudgetSettings> = {}) {
  const clock = fakeClock();
  const settings = { limit: 1000, share: 0.25, reserve: 0.12, requestsPerKey: 100, clock, ...more };
  const budget = boundBytesInFlight(settings);
  const open = (key: string, project = `of ${key}`, address = `of ${project}`) =>
    budget.open({ key, project, address });
  return { budget, clock, open };
}

/** Settled in microtasks. */
async function stateOf(promise: Promise<void> | undefined): Promise<string> {
  if (promise === undefined) return 'at once';
  let state = 'waits';
  promise.then(
    () => {
      state = 'granted';
    },
    () => {
      state = 'refused';
    },
  );
  await new Promise(setImmediate);
  return state;
}

/** As the reader of a body does: the request ends with the refusal. */
function arriving(reservation: ByteReservation, bytes: number): { refused: Refusal | undefined } {
  const body: { refused: Refusal | undefined } = { refused: undefined };
  reservation.grow(bytes);
  reservation.yields((refusal) => {
    body.refused = refusal;
    queueMicrotask(() => reservation.release());
  });
  return body;
}

t.test('a key alone gets everything but the reserve', async (t) => {
  const { budget, open } = budgetOf();
  const alone = open('a');
  t.equal(alone.most, 880);
  alone.grow(880);
  t.throws(() => open('a').grow(1), REFUSED);
  alone.release();
  const second = open('a');
  t.throws(() => second.grow(881), REFUSED, 'one byte past the most');
  second.grow(880);
  second.release();
  second.release();
  t.equal(budget.held, 0);
});

t.test(
  'a key, a project and an address above their shares leave a reserve to others',
  async (t) => {
    const { open } = budgetOf();
    const fill = open('hog');
    fill.grow(880);
    t.throws(
      () => open('hog', 'of hog', 'elsewhere').grow(1),
      REFUSED,
      'the key is above its share',
    );
    const sameProject = open('b', 'of hog', 'b');
    sameProject.grow(40);
    t.throws(() => sameProject.grow(1), REFUSED, 'the project is');
    const sameAddress = open('c', 'c', 'of of hog');
    sameAddress.grow(40);
    t.throws(() => sameAddress.grow(1), REFUSED, 'the address is');
    const other = open('d');
    other.grow(40);
    t.throws(() => other.grow(1), REFUSED, 'everything is used');
  },
);

t.test('a key may hold exactly its share before it is above it', async (t) => {
  const { open } = budgetOf();
  open('hog').grow(750);
  open('a').grow(250);
  const { open: openOther } = budgetOf();
  openOther('hog').grow(750);
  t.throws(() => openOther('a').grow(251), REFUSED);
});

t.test('a key has at most so many requests in progress', async (t) => {
  const { open } = budgetOf({ requestsPerKey: 2 });
  const [first] = [open('a'), open('a')];
  t.throws(() => open('a'), REFUSED);
  open('b');
  first?.release();
  open('a');
  t.throws(() => open('a'), REFUSED);
});

t.test('a request waits until bytes are released, at most eight seconds', async (t) => {
  t.equal(MAX_WAIT_MS, 8_000);
  const { budget, clock, open } = budgetOf();
  const holder = open('hog');
  holder.grow(880);
  const [first, second] = [open('a'), open('b')];
  const granted = first.obtain(121);
  t.equal(await stateOf(granted), 'waits');
  clock.advance(MAX_WAIT_MS - 1);
  const late = second.obtain(121);
  holder.release();
  t.equal(await stateOf(granted), 'granted');
  t.equal(await stateOf(late), 'granted');
  t.equal(clock.pending(), 0);
  const third = open('c');
  third.grow(638);
  const refused = open('d').obtain(200);
  clock.advance(MAX_WAIT_MS - 1);
  t.equal(await stateOf(refused), 'waits');
  clock.advance(1);
  await t.rejects(refused ?? Promise.resolve(), REFUSED);
  for (const each of [first, second, third]) each.release();
  t.equal(budget.held, 0);
});

t.test('a new request of a key above its share waits for its turn too', async (t) => {
  const { open } = budgetOf();
  const first = open('hog');
  first.grow(880);
  const second = open('hog').obtain(1);
  t.equal(await stateOf(second), 'waits');
  first.release();
  t.equal(await stateOf(second), 'granted');
});

t.test(
  'a request within its share takes the bytes of a body above its share that arrives no more',
  async (t) => {
    const { budget, clock, open } = budgetOf();
    const [older, newer] = [open('hog'), open('hog')];
    const [first, last] = [arriving(older, 440), arriving(newer, 440)];
    clock.advance(ARRIVING_MS);
    const granted = open('a').obtain(200);
    t.match(last.refused, REFUSED);
    t.equal(first.refused, undefined, 'no more bodies are refused than necessary');
    t.equal(await stateOf(granted), 'granted');
    t.equal(budget.held, 640);
  },
);

t.test('a body that still arrives gives way after two seconds', async (t) => {
  const { clock, open } = budgetOf();
  const body = arriving(open('hog'), 880);
  clock.advance(ARRIVING_MS - 1);
  const granted = open('a').obtain(200);
  clock.advance(PATIENCE_MS - 1);
  t.equal(await stateOf(granted), 'waits');
  t.equal(body.refused, undefined);
  clock.advance(1);
  t.equal(await stateOf(granted), 'granted');
  t.match(body.refused, REFUSED);
});

t.test('complete bodies and bodies within their shares are never interrupted', async (t) => {
  const { clock, open } = budgetOf();
  const complete = open('hog');
  const body = { isRefused: false };
  complete.grow(250);
  complete.yields(() => {
    body.isRefused = true;
  })();
  const within = ['b', 'c', 'd'].map((key) => arriving(open(key), 250));
  const waits = open('a').obtain(1);
  clock.advance(MAX_WAIT_MS);
  await t.rejects(waits ?? Promise.resolve(), REFUSED);
  t.notOk(body.isRefused);
  t.same(
    within.map(({ refused }) => refused),
    [undefined, undefined, undefined],
  );
});

t.test(
  'of two declared bodies that together exceed the limit, one waits for the other',
  async (t) => {
    const { budget, clock, open } = budgetOf();
    const [a, b] = [open('a'), open('b')];
    for (const each of [a, b]) each.expect(540);
    const bodies = [arriving(a, 340), arriving(b, 340)];
    const first = a.obtain(100);
    t.equal(first, undefined, 'its rest of 200 is exactly free');
    const second = b.obtain(100);
    t.equal(await stateOf(second), 'waits');
    t.equal(a.obtain(100), undefined);
    t.equal(budget.held, 880);
    a.release();
    t.equal(await stateOf(second), 'granted');
    t.same(
      bodies.map(({ refused }) => refused),
      [undefined, undefined],
    );
    t.equal(clock.pending(), 0);
  },
);

t.test('a body gets its next bytes exactly if all its rest is free', async (t) => {
  for (const [expected, isFree] of [
    [480, true],
    [481, false],
  ] as const) {
    const { open } = budgetOf();
    open('other').grow(400);
    const body = open('hog');
    body.expect(expected);
    t.equal(await stateOf(body.obtain(1)), isFree ? 'at once' : 'waits', `${expected} bytes`);
  }
});

t.test('likely bytes lift no request above its share', async (t) => {
  const { open } = budgetOf();
  open('other').grow(750);
  const body = open('a');
  body.expect(30, 1_000);
  t.equal(body.obtain(30), undefined, '250 of the 1,000 bytes are free');
  const another = open('b');
  another.expect(30, 1_000);
  t.equal(await stateOf(another.obtain(30)), 'waits');
});

t.test(
  'new requests of a key wait behind its large body, small ones and other keys do not',
  async (t) => {
    const { open } = budgetOf();
    open('hog').grow(400);
    const large = open('hog');
    large.expect(700);
    const turn = large.obtain(10);
    t.equal(await stateOf(turn), 'waits');
    const next = open('hog');
    next.expect(20);
    t.equal(await stateOf(next.obtain(10)), 'waits', 'it would need two grants');
    const small = open('hog');
    small.expect(10);
    t.equal(small.obtain(10), undefined, 'it needs one');
    const other = open('a');
    other.expect(20);
    t.equal(other.obtain(10), undefined, 'another key');
  },
);

t.test('of two bodies of unknown length that block each other, the last is refused', async (t) => {
  const { budget, clock, open } = budgetOf();
  const [a, b] = [open('a'), open('b')];
  const bodies = [arriving(a, 440), arriving(b, 440)];
  const first = a.obtain(100);
  t.equal(await stateOf(first), 'waits', 'the other one may still complete');
  const second = b.obtain(100);
  t.same(await Promise.all([stateOf(first), stateOf(second)]), ['granted', 'refused']);
  t.match([bodies[0]?.refused, bodies[1]?.refused], [undefined, REFUSED]);
  t.equal(budget.held, 540);
  t.equal(clock.pending(), 0);
});

t.test('a body of unknown length is refused before one of a known length', async (t) => {
  const { open } = budgetOf();
  const [known, unknown] = [open('a'), open('b')];
  unknown.grow(440);
  known.grow(440);
  known.expect(541);
  const first = unknown.obtain(100);
  first?.catch(() => unknown.release());
  const second = known.obtain(101);
  t.same(await Promise.all([stateOf(second), stateOf(first)]), ['granted', 'refused']);
});

t.test('the edits of a processor may use the reserve, other growth may not', (t) => {
  const { open } = budgetOf({ limit: 102_400, share: 0.25, reserve: 0.12 });
  const full = open('hog');
  full.grow(full.most - 1);
  const complete = full;
  t.throws(() => complete.grow(101), REFUSED, 'more than a 1,024th of the limit');
  t.throws(() => complete.grow(2), REFUSED, 'more than one request can hold');
  const second = open('hog');
  t.throws(() => second.grow(2), REFUSED, 'it holds nothing yet');
  complete.grow(1);
  second.obtain(1)?.catch(() => {});
  t.end();
});

t.test('a slow body above its share gives way to another one after its turn', async (t) => {
  const { clock, open } = budgetOf();
  const slow = arriving(open('slow'), 450);
  clock.advance(10_000 - PATIENCE_MS - 1);
  const growing = open('b');
  growing.grow(430);
  growing.expect(530);
  const waits = growing.obtain(100);
  clock.advance(PATIENCE_MS);
  t.equal(await stateOf(waits), 'waits', 'a millisecond before the end of the turn');
  t.equal(slow.refused, undefined);
  clock.advance(PATIENCE_MS);
  t.match(slow.refused, REFUSED);
  t.equal(await stateOf(waits), 'granted');
});

/** One step of some client: it opens a request, asks for bytes, completes its body, releases, or time passes. */
const step = fc.record({
  kind: fc.constantFrom('open', 'open', 'grow', 'obtain', 'obtain', 'complete', 'release', 'pass'),
  who: fc.nat(4),
  bytes: fc.integer({ min: 1, max: 400 }),
});

type Request = {
  readonly reservation: ByteReservation;
  readonly isHog: boolean;
  readonly keepBytes: () => void;
  waiting: boolean;
  isOver: boolean;
};

t.test('whatever the requests do, the limit holds and everything is released', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const { budget, clock, open } = budgetOf();
      const requests: Request[] = [];
      const end = (request: Request): void => {
        request.isOver = true;
        request.reservation.release();
      };
      const ask = (request: Request, bytes: number): void => {
        const { reservation } = request;
        const waiting = reservation.obtain(bytes);
        if (waiting === undefined) return;
        request.waiting = true;
        waiting.then(
          () => {
            request.waiting = false;
          },
          () => end(request),
        );
      };
      const enter = (who: number, isHog: boolean): Request => {
        const reservation = open(`key ${who}`, `project ${who % 3}`, `address ${who % 2}`);
        const keepBytes = reservation.yields(() => end(request));
        const request: Request = { reservation, isHog, keepBytes, waiting: false, isOver: false };
        requests.push(request);
        return request;
      };
      for (const { kind, who, bytes } of steps) {
        const open = requests.filter(({ isOver, waiting }) => !isOver && !waiting);
        const chosen = open[who % Math.max(1, open.length)];
        try {
          if (kind === 'open') enter(who, false);
          else if (kind === 'pass') clock.advance(bytes * 10);
          else if (chosen === undefined) continue;
          else if (kind === 'grow') chosen.reservation.grow(bytes);
          else if (kind === 'obtain') ask(chosen, bytes);
          else if (kind === 'complete') chosen.keepBytes();
          else end(chosen);
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
        }
        await Promise.resolve();
        const held = requests.reduce((sum, { reservation }) => sum + reservation.held, 0);
        if (budget.held > budget.limit || held !== budget.held) throw new Error('over the limit');
      }
      // A client of another key gets its turn: when the others are done, at the latest.
      const late = enter(99, true);
      const turn = late.reservation.obtain(200);
      for (const request of requests) if (request !== late) end(request);
      if ((await stateOf(turn)) === 'waits') throw new Error('another key waits for free bytes');
      end(late);
      if (budget.held !== 0 || clock.pending() !== 0) throw new Error('something is still held');
    }),
    { numRuns: 500 },
  );
});

t.test(
  'whatever a client above its share sends, a small request of another key is never refused',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 500 }), { maxLength: 40 }),
        async (sizes) => {
          const { open } = budgetOf();
          for (const bytes of sizes) {
            const reservation = open('hog', 'hog', 'shared');
            try {
              reservation.obtain(bytes)?.catch(() => reservation.release());
            } catch {
              reservation.release();
            }
            const small = open('small', 'small', 'shared');
            small.grow(20);
            small.release();
          }
        },
      ),
    );
  },
);

/** A client that sends a body of a declared length at its own pace, and is answered some time after its end. */
type Sender = {
  readonly bytes: number;
  readonly key: number;
  readonly startsAt: number;
  /** Bytes that it has ready each tick. */
  readonly pace: number;
  /** Ticks from the end of the body to the release. */
  readonly works: number;
};

const senders = fc.array(
  fc.record({
    bytes: fc.oneof(fc.integer({ min: 1, max: 880 }), fc.integer({ min: 1, max: 60 })),
    key: fc.nat(3),
    startsAt: fc.nat(20),
    pace: fc.integer({ min: 20, max: 400 }),
    works: fc.nat(3),
  }),
  { minLength: 1, maxLength: 40 },
);
const TICK_MS = 5;

/** Plays all senders to their ends; the refusals, and the most that was held at any time. */
async function play(all: readonly Sender[]) {
  const { budget, clock, open } = budgetOf({ requestsPerKey: 1_000 });
  const refusals: unknown[] = [];
  let most = 0;
  let left = all.length;
  const tick = (): Promise<void> =>
    new Promise((resolve) => {
      clock.after(TICK_MS, resolve);
    });
  const send = async ({ bytes, key, startsAt, pace, works }: Sender): Promise<void> => {
    for (let i = 0; i < startsAt; i++) await tick();
    const reservation = open(`key ${key}`, `project ${key % 2}`, 'shared');
    reservation.expect(bytes);
    try {
      for (let first = Math.min(bytes, 16); reservation.held < bytes; first = pace) {
        const more = Math.min(first, bytes - reservation.held);
        const keepBytes = reservation.yields((refusal) => refusals.push(refusal));
        const waiting = reservation.obtain(more);
        if (waiting !== undefined) await waiting;
        most = Math.max(most, budget.held);
        await tick();
        keepBytes();
      }
      for (let i = 0; i < works; i++) await tick();
    } catch (error) {
      refusals.push(error);
    }
    reservation.release();
    left--;
  };
  const done = Promise.all(all.map(send));
  for (let i = 0; left > 0 && i < 100_000; i++) {
    for (let j = 0; j < 6; j++) await Promise.resolve();
    clock.advance(TICK_MS);
  }
  if (left > 0) throw new Error(`${left} requests never end`);
  await done;
  return { refusals, most, held: budget.held, pending: clock.pending() };
}

t.test(
  'no body of a client that keeps sending is refused, whatever sizes arrive together',
  async () => {
    await fc.assert(
      fc.asyncProperty(senders, async (all) => {
        const { refusals, most, held, pending } = await play(all);
        if (refusals.length > 0) throw new Error(`${refusals.length} refused`);
        if (most > 1_000) throw new Error(`${most} bytes held`);
        if (held !== 0 || pending !== 0) throw new Error('something is still held');
      }),
      { numRuns: 300 },
    );
  },
);
