import t from 'tap';
import type { Observation, ObservationSource } from '../../../../src/model/observation.ts';
import {
  copyKeyOf,
  isRunWithCopy,
  otherCopy,
  repeatedRun,
} from '../../../../src/store/rows/copies.ts';
import { rowOf } from '../../../../src/store/rows/observation-row.ts';
import { anObservation } from '../../../helper/batches.ts';

const MS = Date.UTC(2026, 0, 15, 12);

function copy(source: ObservationSource, more: Partial<Observation> = {}) {
  return copyKeyOf(rowOf(anObservation({ sentTwice: true, ...more }), 'trace', 0, source));
}

t.test('a run that has ended and its span have keys that name each other', (t) => {
  const run = copy('runs');
  const span = copy('otlp');
  if (run === null || span === null) throw new Error('no key');
  t.equal(isRunWithCopy(run), true);
  t.equal(isRunWithCopy(span), false);
  t.equal(otherCopy(run), span);
  t.equal(otherCopy(span), run);
  t.equal(repeatedRun(anObservation({ sentTwice: true }), 'otlp'), run);
  t.equal(repeatedRun(anObservation({ sentTwice: true }), 'runs'), null);
  t.equal(repeatedRun(anObservation(), 'otlp'), null);
  t.end();
});

t.test('other observations have none', (t) => {
  t.equal(copy('runs', { sentTwice: false }), null);
  t.equal(copy('runs', { ended: false }), null, 'a run that has not ended takes no place');
  t.not(copy('otlp', { ended: false }), null);
  t.equal(copy('native'), null);
  t.equal(copy('otlp', { name: null }), null);
  t.equal(copy('otlp', { startTime: null }), null);
  t.equal(repeatedRun(anObservation({ sentTwice: true, name: null }), 'otlp'), null);
  t.equal(repeatedRun(anObservation({ sentTwice: true, startTime: null }), 'otlp'), null);
  t.end();
});

t.test(
  'a start counts to the nearest microsecond, also across a millisecond and before 1970',
  (t) => {
    const at = (ms: number, ns: number) => copy('runs', { startTime: { ms, ns } });
    for (const ms of [MS, -MS, 0, 253_402_300_799_999]) {
      t.equal(at(ms, 0), at(ms, 499));
      t.equal(at(ms, 0), at(ms - 1, 999_500));
      t.not(at(ms, 0), at(ms, 500));
      t.not(at(ms, 0), at(ms - 1, 999_499));
    }
    t.not(copy('runs', { name: 'a' }), copy('runs', { name: 'b' }));
    t.end();
  },
);
