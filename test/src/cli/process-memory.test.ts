import t from 'tap';
import { YOUNG_FLAGS } from '../../../src/cli/heap.ts';
import { restartWith } from '../../../src/cli/process-memory.ts';

const RUN = { argv: ['node', 'main.js', 'run'], execArgv: [], env: {}, platform: 'linux' } as const;

t.test(
  'a daemon is started again with the limit of the heap and the settings of the allocator',
  async (t) => {
    const restart = restartWith({ ...RUN, execArgv: ['--no-warnings'], env: { HOME: '/root' } });
    t.strictSame(restart?.execArgv, ['--no-warnings', ...YOUNG_FLAGS]);
    t.strictSame(restart?.env, {
      HOME: '/root',
      MALLOC_MMAP_THRESHOLD_: '1048576',
      MALLOC_TRIM_THRESHOLD_: '16777216',
      MALLOC_ARENA_MAX: '2',
    });
    t.equal(restartWith({ ...RUN, ...restart }), undefined, 'once');
  },
);

t.test('settings of the user stay', async (t) => {
  const allocator = restartWith({ ...RUN, env: { MALLOC_ARENA_MAX: '8' } });
  t.strictSame(allocator, { execArgv: [...YOUNG_FLAGS], env: { MALLOC_ARENA_MAX: '8' } });
  const flag = restartWith({ ...RUN, execArgv: ['--max_semi_space_size=16'] });
  t.strictSame(flag?.execArgv, ['--max_semi_space_size=16']);
  const option = { NODE_OPTIONS: '--no-warnings --max-semi-space-size=16' };
  t.strictSame(restartWith({ ...RUN, env: option })?.execArgv, []);
});

t.test('the allocator of another system has no settings', async (t) => {
  const restart = restartWith({ ...RUN, platform: 'darwin' });
  t.strictSame(restart, { execArgv: [...YOUNG_FLAGS], env: {} });
});

t.test('a command that is no daemon is not started again', async (t) => {
  t.equal(restartWith({ ...RUN, argv: ['node', 'main.js', 'validate'] }), undefined);
});
