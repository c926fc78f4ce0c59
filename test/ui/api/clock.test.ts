import t from 'tap';
import { aheadBy } from '../../../ui/api/clock.ts';

const DATE = 'Sun, 29 Nov 2026 03:00:00 GMT';
const AT = Date.parse(DATE);
const HOUR = 3_600_000;

/** An answer that took 100 ms, to a browser whose clock is off. */
const browserAt = (off: number) => ({ sent: AT + off, received: AT + off + 100 });

t.test('takes the difference of clocks that are far apart', (t) => {
  t.equal(aheadBy(0, DATE, browserAt(3 * HOUR)), -3 * HOUR - 50);
  t.equal(aheadBy(0, DATE, browserAt(-HOUR)), HOUR - 50);
  t.end();
});

t.test('leaves a difference that the header is too coarse to show', (t) => {
  t.equal(aheadBy(0, DATE, browserAt(2_000)), 0);
  t.equal(aheadBy(0, DATE, browserAt(-2_000)), 0);
  t.not(aheadBy(0, DATE, browserAt(2_001)), 0);
  t.end();
});

t.test('keeps what it knows while answers agree with it, a slow one too', (t) => {
  const known = aheadBy(0, DATE, browserAt(HOUR));
  t.equal(aheadBy(known, DATE, browserAt(HOUR + 900)), known);
  t.equal(aheadBy(known, DATE, { sent: AT + HOUR - 60_000, received: AT + HOUR }), known);
  t.end();
});

t.test('follows a clock that was corrected', (t) => {
  t.equal(aheadBy(-HOUR, DATE, browserAt(0)), -50);
  t.end();
});

t.test('keeps what it knows without a header, and with one that is no date', (t) => {
  t.equal(aheadBy(7, null, browserAt(HOUR)), 7);
  t.equal(aheadBy(7, 'soon', browserAt(HOUR)), 7);
  t.end();
});
