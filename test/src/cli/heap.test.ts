import { execFileSync } from 'node:child_process';
import t from 'tap';
import { YOUNG_FLAGS } from '../../../src/cli/heap.ts';

const HEAP = new URL('../../../src/cli/heap.ts', import.meta.url).href;

/**
 * Prints the MiB that the young generation has after a load, with a configuration whose processors emit these kinds. A collection in
 * progress has more pages for a moment, so the least of several looks counts.
 */
const program = (emitted: readonly string[]): string => `
  import { setTimeout } from 'node:timers/promises';
  import { getHeapSpaceStatistics } from 'node:v8';
  import { keepsCode, tuneHeap, tuneHeapFor } from ${JSON.stringify(HEAP)};
  tuneHeap();
  const emitted = ${JSON.stringify(emitted)};
  tuneHeapFor({ processors: new Map(emitted.map((emits) => [emits, { factory: { data: { emits } } }])) });
  // Each object lives while as many others are made, as the observations of waiting batches do.
  const waiting = Array.from({ length: 100_000 }, () => ({}));
  for (let i = 0; i < 2_000_000; i++) waiting[i % waiting.length] = { i, next: { i } };
  const looks = [];
  for (let look = 0; look < 10; look++) {
    looks.push(getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space').space_size);
    await setTimeout(1);
  }
  console.log(JSON.stringify({ keepsCode: keepsCode(), mib: Math.min(...looks) / 2 ** 20 }));
`;

function afterLoad(emitted: readonly string[], flags: readonly string[]) {
  const args = [...flags, '--input-type=module', '--eval', program(emitted)];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as {
    readonly keepsCode: boolean;
    readonly mib: number;
  };
}

t.test('the young generation grows in a daemon that normalizes only', async (t) => {
  const passing = afterLoad(['same'], YOUNG_FLAGS);
  t.equal(passing.keepsCode, false);
  t.ok(passing.mib <= 4, `${passing.mib} MiB: two semi-spaces of 2`);
  const normalizing = afterLoad(['same', 'observations'], YOUNG_FLAGS);
  t.equal(normalizing.keepsCode, true);
  t.ok(normalizing.mib > 6, `${normalizing.mib} MiB`);
});

t.test('a limit of the user is the only one', async (t) => {
  const { mib } = afterLoad(['same'], ['--max-semi-space-size=6']);
  t.ok(mib > 4, `${mib} MiB`);
});
