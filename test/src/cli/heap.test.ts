import t from 'tap';
import { mayGrow } from '../../../src/cli/heap.ts';

const MIB = 1024 * 1024;

t.test('a small young generation may grow while the process allocates', async (t) => {
  t.equal(mayGrow({ size: MIB, used: MIB }, 0), true, 'it allocated');
  t.equal(mayGrow({ size: MIB, used: 10_000 }, 500_000), true, 'it collected');
});

t.test('the young generation of a process without work does not grow', async (t) => {
  t.equal(mayGrow({ size: MIB, used: 500_000 }, 500_000), false);
  t.equal(mayGrow({ size: MIB, used: 600_000 }, 500_000), false);
});

t.test('a young generation of full size does not grow', async (t) => {
  t.equal(mayGrow({ size: 4 * MIB, used: 10_000 }, 2 * MIB), false);
  t.equal(mayGrow({ size: 4 * MIB, used: 2 * MIB }, 0), false);
});
