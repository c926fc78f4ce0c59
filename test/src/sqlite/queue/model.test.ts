import fc from 'fast-check';
import type { Test } from 'tap';
import t from 'tap';
import type { DurableQueue, QueueEntry } from '../../../../src/queue/queue.ts';
import type { OpenPlace, QueuePlace } from '../../../contract/queue.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { directoryQueues, storeQueues } from '../../../helper/places.ts';

/**
 * Compares the queue with a model of a few lines: after any operations in any order, with closings and crashes between
 * them, both must be in the same state.
 */
const BRANCHES = ['a', 'b'];
const OPTIONS = { name: 'queue', branches: BRANCHES, maxBytes: 1e9 };

type Branch = 'a' | 'b';
type Item = {
  readonly id: string;
  readonly items: number;
  readonly bytes: number;
  /** By branch: waiting (with its due time and attempts), leased, a dead letter, or gone. */
  readonly state: Record<string, State>;
};
type State =
  | { is: 'waiting' | 'leased'; due: number; attempts: number }
  | { is: 'dead' }
  | { is: 'gone' };

class Model {
  readonly items: Item[] = [];
  now: number;

  constructor(now: number) {
    this.now = now;
  }

  due(branch: string, max: number): Item[] {
    return this.items
      .filter(({ state }) => {
        const at = state[branch];
        return at?.is === 'waiting' && at.due <= this.now;
      })
      .slice(0, max);
  }

  in(branch: string, ...states: string[]): Item[] {
    return this.items.filter(({ state }) => states.includes(state[branch]?.is ?? ''));
  }

  attempts(item: Item, branch: string): number {
    const at = item.state[branch];
    return at !== undefined && 'attempts' in at ? at.attempts : 0;
  }

  bytes(): number {
    const waits = (item: Item): boolean =>
      BRANCHES.some((branch) => this.in(branch, 'waiting', 'leased').includes(item));
    return sum(this.items.filter(waits).map(({ bytes }) => bytes));
  }
}

class Real {
  readonly place: QueuePlace;
  open: OpenPlace;
  queue: DurableQueue;
  readonly leased = new Map<string, QueueEntry>();

  constructor(place: QueuePlace, open: OpenPlace, queue: DurableQueue) {
    this.place = place;
    this.open = open;
    this.queue = queue;
  }

  take(branch: string, item: Item): QueueEntry {
    const entry = this.leased.get(branch + item.id);
    if (entry === undefined) throw new Error('the model has a lease that the queue does not have');
    this.leased.delete(branch + item.id);
    return entry;
  }
}

type Command = fc.AsyncCommand<Model, Real>;

function command(name: string, run: (model: Model, real: Real) => Promise<void>): Command {
  return {
    check: () => true,
    toString: () => name,
    run: async (model, real) => {
      await run(model, real);
      compare(model, real.queue);
    },
  };
}

const append = (count: number, items: number): Command =>
  command(`append ${count} of ${items}`, async (model, { queue }) => {
    const batches = Array.from({ length: count }, () => nativeBatch(items));
    await Promise.all(batches.map((batch) => queue.append(batch)));
    for (const { id, body } of batches) {
      const waiting = () => ({ is: 'waiting' as const, due: 0, attempts: 0 });
      model.items.push({ id, items, bytes: body.length, state: { a: waiting(), b: waiting() } });
    }
  });

const lease = (branch: Branch, max: number): Command =>
  command(`lease ${max} of ${branch}`, async (model, real) => {
    const entries = await real.queue.lease(branch, max, 1e9);
    const expected = model.due(branch, max);
    same(
      entries.map(({ batch, attempts }) => [batch.id, attempts]),
      expected.map((item) => [item.id, model.attempts(item, branch)]),
      'the leased entries',
    );
    for (const [i, item] of expected.entries()) {
      item.state[branch] = { is: 'leased', due: 0, attempts: model.attempts(item, branch) };
      const entry = entries[i];
      if (entry !== undefined) real.leased.set(branch + item.id, entry);
    }
  });

const ack = (branch: Branch, which: number): Command =>
  command(`ack ${which} of ${branch}`, async (model, real) => {
    const item = pick(model.in(branch, 'leased'), which);
    if (item === undefined) return;
    await real.queue.ack(branch, [real.take(branch, item)]);
    item.state[branch] = { is: 'gone' };
  });

const nack = (branch: Branch, which: number, delay: number): Command =>
  command(`nack ${which} of ${branch} for ${delay}`, async (model, real) => {
    const item = pick(model.in(branch, 'leased'), which);
    if (item === undefined) return;
    const attempts = model.attempts(item, branch) + 1;
    await real.queue.nack(branch, real.take(branch, item), delay, 'test');
    item.state[branch] = { is: 'waiting', due: model.now + delay, attempts };
  });

const deadLetter = (branch: Branch, which: number): Command =>
  command(`dead letter ${which} of ${branch}`, async (model, real) => {
    const item = pick(model.in(branch, 'leased'), which);
    if (item === undefined) return;
    const entry = real.take(branch, item);
    await real.queue.deadLetter(branch, entry, { code: 'test', message: '' });
    item.state[branch] = { is: 'dead' };
  });

const replay = (): Command =>
  command('replay all', async (model, { queue }) => {
    const dead = BRANCHES.flatMap((branch) =>
      model.in(branch, 'dead').map((item) => ({ item, branch })),
    );
    same(await queue.replay('all'), dead.length, 'the number of replayed letters');
    for (const { item, branch } of dead)
      item.state[branch] = { is: 'waiting', due: 0, attempts: 0 };
  });

const drop = (): Command =>
  command('drop all', async (model, { queue }) => {
    let dead = 0;
    for (const branch of BRANCHES) {
      for (const item of model.in(branch, 'dead')) {
        item.state[branch] = { is: 'gone' };
        dead++;
      }
    }
    same(await queue.drop('all'), dead, 'the number of dropped letters');
  });

const wait = (ms: number): Command =>
  command(`wait ${ms}`, async (model, { place }) => {
    place.clock.advance(ms);
    model.now += ms;
  });

const reopen = (how: 'close' | 'crash'): Command =>
  command(how, async (model, real) => {
    await real.open[how]();
    real.open = await real.place.open();
    real.queue = await real.open.storage.openQueue(OPTIONS);
    real.leased.clear();
    for (const branch of BRANCHES) {
      for (const item of model.in(branch, 'leased')) {
        item.state[branch] = { is: 'waiting', due: 0, attempts: model.attempts(item, branch) };
      }
    }
  });

function compare(model: Model, queue: DurableQueue): void {
  const stats = queue.stats();
  for (const branch of BRANCHES) {
    const waiting = model.in(branch, 'waiting', 'leased');
    const found = stats.branches.find((one) => one.branch === branch);
    same(
      [found?.entries, found?.items, found?.leased],
      [waiting.length, sum(waiting.map(({ items }) => items)), model.in(branch, 'leased').length],
      `entries, items and leases of ${branch}`,
    );
  }
  same(stats.bytes, model.bytes(), 'bytes');
  const dead = BRANCHES.flatMap((branch) => model.in(branch, 'dead'));
  same(
    [stats.deadLetters, stats.deadLetterItems],
    [dead.length, sum(dead.map(({ items }) => items))],
    'dead letters',
  );
  same(stats.quarantined, 0, 'quarantined');
}

/** Throws, because fast-check shrinks by errors. */
function same(found: unknown, expected: unknown, name: string): void {
  if (JSON.stringify(found) === JSON.stringify(expected)) return;
  throw new Error(`${name}: ${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
}

function pick<T>(list: readonly T[], which: number): T | undefined {
  return list.length === 0 ? undefined : list[which % list.length];
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((a, b) => a + b, 0);
}

const branch = fc.constantFrom<Branch>('a', 'b');
const which = fc.nat(20);
const STEPS = [
  fc
    .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 3 }))
    .map((args) => append(...args)),
  fc.tuple(branch, fc.integer({ min: 1, max: 4 })).map((args) => lease(...args)),
  fc.tuple(branch, which).map((args) => ack(...args)),
  fc.tuple(branch, which, fc.constantFrom(0, 10, 100)).map((args) => nack(...args)),
  fc.tuple(branch, which).map((args) => deadLetter(...args)),
  fc.constant(null).map(replay),
  fc.constant(null).map(drop),
  fc.constantFrom(5, 50, 500).map(wait),
];
// Reopening takes far longer than the other commands, so it is rarer.
const REOPEN = fc.constantFrom('close' as const, 'crash' as const, 'crash' as const).map(reopen);
const COMMANDS = [...STEPS, ...STEPS, REOPEN];
const RUNS = Number(process.env.MODEL_RUNS ?? 4);

async function matchesModel(t: Test, place: (t: Test) => Promise<QueuePlace>): Promise<void> {
  const property = fc.asyncProperty(
    fc.commands(COMMANDS, { maxCommands: 50, size: '+1' }),
    async (commands) => {
      let real: Real | undefined;
      await t.test('a history of commands', async (t) => {
        const at = await place(t);
        const open = await at.open();
        const made = new Real(at, open, await open.storage.openQueue(OPTIONS));
        real = made;
        t.teardown(() => made.open.close());
        await fc.asyncModelRun(() => ({ model: new Model(at.clock.now()), real: made }), commands);
      });
      if (real === undefined) throw new Error('no command was run');
    },
  );
  await fc.assert(property, { numRuns: RUNS, endOnFailure: true });
}

t.test('a queue in a store behaves like its model', (t) => matchesModel(t, storeQueues));
t.test('a queue in a directory behaves like its model', (t) => matchesModel(t, directoryQueues));
