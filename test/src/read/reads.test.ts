import t from 'tap';
import type { ReadLimits } from '../../../src/read/reads.ts';
import { createReads } from '../../../src/read/reads.ts';
import { aTenant } from '../../helper/batches.ts';
import { NO_DEADLINE, READ_LIMITS, testReadsOwner } from '../../helper/http.ts';
import { recordingMetrics } from '../../helper/settings.ts';

const KIB = 1024;
/** The memory of one read before it loads anything. */
const WORKING = 256 * KIB;

function reads(limits: Partial<ReadLimits> = {}) {
  return testReadsOwner(limits);
}

const of = (projectId: string, keyId = `key_${projectId}`) => aTenant({ projectId, keyId });

t.test('a key has exactly its number of reads in progress', async (t) => {
  const owner = reads({ reads_per_key: 2 });
  const [first] = [owner.begin(of('a'), NO_DEADLINE), owner.begin(of('a'), NO_DEADLINE)];
  t.throws(() => owner.begin(of('a'), NO_DEADLINE), {
    code: 'rate_limited',
    status: 429,
    retryAfterMs: 1000,
  });
  owner.begin(of('b'), NO_DEADLINE);
  first?.end();
  first?.end();
  owner.begin(of('a'), NO_DEADLINE);
  t.throws(() => owner.begin(of('a'), NO_DEADLINE), { code: 'rate_limited' });
});

t.test('while clients send, the place of a read at the store rests after a turn', async (t) => {
  let now = 0;
  const rests: (() => void)[] = [];
  const after = (_: number, callback: () => void) => {
    rests.push(callback);
    return () => {};
  };
  const owner = createReads({
    limits: { ...READ_LIMITS, concurrent_reads: 1 },
    metrics: recordingMetrics(),
    clock: { now: () => now, uptime: () => now, after },
    isAccepting: () => true,
  });
  const read = owner.begin(of('a'), NO_DEADLINE);
  const started: string[] = [];
  const work = async (name: string): Promise<void> => {
    started.push(name);
    now += 10;
  };
  await read.turn(() => work('first'));
  const second = read.turn(() => work('second'));
  await Promise.resolve();
  t.same([started, rests.length], [['first'], 1]);
  rests[0]?.();
  await second;
  t.same(started, ['first', 'second']);
});

t.test('a project holds seven eighths of the bytes, and the rest is for others', async (t) => {
  const owner = reads({ read_bytes: 8 * WORKING });
  const large = owner.begin(of('a'), NO_DEADLINE);
  t.throws(() => large.reservation.grow(6 * WORKING + 1), { code: 'unavailable', status: 503 });
  large.reservation.grow(6 * WORKING);
  t.throws(() => owner.begin(of('a'), NO_DEADLINE), { code: 'unavailable' });
  const other = owner.begin(of('b'), NO_DEADLINE);
  t.throws(() => other.hold(WORKING + 1), { code: 'unavailable' }, 'the budget is used up');
  other.end();
  large.end();
  t.equal(owner.heldBytes, 0);
});

t.test('a refused read holds neither bytes nor a place of its key', async (t) => {
  const owner = reads({ read_bytes: 8 * WORKING, reads_per_key: 2 });
  const large = owner.begin(of('a', 'key_1'), NO_DEADLINE);
  large.reservation.grow(6 * WORKING);
  for (let i = 0; i < 3; i++) {
    t.throws(() => owner.begin(of('a', 'key_2'), NO_DEADLINE), { code: 'unavailable' });
  }
  large.end();
  owner.begin(of('a', 'key_2'), NO_DEADLINE);
  t.equal(owner.heldBytes, WORKING);
});

t.test('texts use the working memory first', async (t) => {
  const owner = reads();
  const read = owner.begin(of('a'), NO_DEADLINE);
  read.hold(WORKING);
  t.equal(owner.heldBytes, WORKING);
  read.hold(WORKING + 1);
  read.hold(10);
  t.equal(owner.heldBytes, WORKING + 1);
  read.end();
  t.equal(owner.heldBytes, 0);
});

t.test('turns end with the client', async (t) => {
  const abort = new AbortController();
  const read = reads().begin(of('a'), abort.signal);
  t.equal(await read.turn(async () => 1), 1);
  abort.abort();
  await t.rejects(
    read.turn(async () => 2),
    { name: 'AbortError' },
  );
});
