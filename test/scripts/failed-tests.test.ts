import t from 'tap';
import { failuresOf } from '../../scripts/failed-tests.ts';

const REPORT = `TAP version 14
# Subtest: a store
    ok 1 - opens
    # Subtest: writes
        not ok 1 - counts
          ---
          compare: ===
          at:
            lineNumber: 2
          source: |
            t.equal(1, 2);

            --^
          diff: |
            -2
            +1
          ...

        ok 2 - reads
        1..2
    not ok 2 - writes # time=25.959ms
      ---
      at:
        lineNumber: 1
      ...
    not ok 3 - closes
    1..3
not ok 1 - a store # time=35.195ms
not ok 2 - timeout!
  ---
  expired: test.ts
  ...
1..2
`;

t.test('lists each failed assertion once, with its tests and its diagnosis', (t) => {
  t.same(failuresOf(REPORT), [
    'not ok a store > writes > - counts\n  diff: |\n    -2\n    +1',
    'not ok a store > - closes',
    'not ok - timeout!\n  expired: test.ts',
  ]);
  t.end();
});

t.test('a report without a failure has none', (t) => {
  t.same(failuresOf('TAP version 14\nok 1 - a store # time=1ms\n1..1\n'), []);
  t.end();
});
