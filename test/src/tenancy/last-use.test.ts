import t from 'tap';
import { lastUse } from '../../../src/tenancy/last-use.ts';
import type { KeyUse } from '../../../src/tenancy/rows.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const SECOND = 1000;

function noting() {
  const clock = fakeClock();
  const began = clock.now();
  const written: string[] = [];
  let failure: Error | undefined;
  const uses = lastUse(
    async (noted: readonly KeyUse[]) => {
      if (failure !== undefined) throw failure;
      const at = (clock.now() - began) / SECOND;
      for (const { id, usedAt } of noted) written.push(`${at}: ${id} ${(usedAt - began) / SECOND}`);
    },
    clock,
    recordingLogger(),
  );
  return {
    written,
    clock,
    fail(error: Error | undefined) {
      failure = error;
    },
    use: (id: string) => uses.note(id, clock.now()),
    close: () => uses.close(),
    async wait(seconds: number) {
      for (let i = 0; i < seconds; i++) {
        clock.advance(SECOND);
        await new Promise(setImmediate);
      }
    },
  };
}

t.test('writes a use soon, and a later one a minute after the earlier write', async (t) => {
  const { written, clock, use, wait } = noting();
  use('key_1');
  await wait(30);
  use('key_1');
  await wait(20);
  use('key_2');
  await wait(120);
  t.same(written, ['5: key_1 0', '55: key_2 50', '65: key_1 30']);
  t.equal(clock.pending(), 0, 'nothing is left to write');
});

t.test('writes a use soon after the clock went back by an hour', async (t) => {
  const { written, clock, use, wait } = noting();
  use('key_1');
  await wait(5);
  clock.set(clock.now() - 3600 * SECOND);
  use('key_1');
  await wait(5);
  t.same(written, ['5: key_1 0', '-3590: key_1 -3595']);
});

t.test('writes a use again a minute after its write failed', async (t) => {
  const { written, clock, use, wait, fail } = noting();
  fail(new Error('the store is away'));
  use('key_1');
  use('key_2');
  await wait(10);
  fail(undefined);
  use('key_2');
  await wait(120);
  t.same(written, ['65: key_1 0', '65: key_2 10']);
  t.equal(clock.pending(), 0);
});

t.test('a failed write does not replace a use that was noted during it', async (t) => {
  const clock = fakeClock();
  const began = clock.now();
  const writes: { readonly usedAt: number[]; fail(): void }[] = [];
  const uses = lastUse(
    (noted: readonly KeyUse[]) =>
      new Promise((_resolve, reject) => {
        const usedAt = noted.map((use) => use.usedAt - began);
        writes.push({ usedAt, fail: () => reject(new Error('the store is away')) });
      }),
    clock,
    recordingLogger(),
  );
  uses.note('key_1', began);
  clock.advance(5 * SECOND);
  uses.note('key_1', clock.now());
  writes[0]?.fail();
  await new Promise(setImmediate);
  for (let i = 0; i < 15; i++) clock.advance(5 * SECOND);
  t.same(
    writes.map(({ usedAt }) => usedAt),
    [[0], [5 * SECOND]],
  );
});

t.test(
  'a close writes every use, also of a key that was written less than a minute ago',
  async (t) => {
    const { written, use, wait, close } = noting();
    use('key_1');
    await wait(10);
    use('key_1');
    await close();
    t.same(written, ['5: key_1 0', '10: key_1 10']);
  },
);
