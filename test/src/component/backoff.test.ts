import t from 'tap';
import { backoff } from '../../../src/component/backoff.ts';

t.test('doubles the wait after each failure, up to the maximum', async (t) => {
  const wait = backoff({ first: 200, max: 1000 });
  t.same([0, 1, 2, 3, 1e6].map(wait), [200, 400, 800, 1000, 1000]);
});

t.test('starts at the maximum if the first wait is longer', async (t) => {
  t.equal(backoff({ first: 200, max: 100 })(0), 100);
});

t.test('multiplies the wait by the factor', async (t) => {
  const wait = backoff({ first: 100, max: 1000, factor: 1.5 });
  t.same([0, 1, 2].map(wait), [100, 150, 225]);
});

t.test('keeps the wait constant with a factor of 1', async (t) => {
  const wait = backoff({ first: 100, max: 1000, factor: 1 });
  t.same([0, 1e6].map(wait), [100, 100]);
});

t.test('jitter moves the wait between its two shares, also beyond the maximum', async (t) => {
  const options = { first: 100, max: 100, jitter: [0.5, 1.5] } as const;
  t.equal(backoff({ ...options, random: () => 0 })(0), 50);
  t.equal(backoff({ ...options, random: () => 0.5 })(5), 100);
  t.equal(backoff({ ...options, random: () => 1 })(5), 150);
  const random = backoff(options)(0);
  t.ok(random >= 50 && random <= 150);
});
