import t from 'tap';
import { ApiFailure } from '../../../ui/api/client.ts';

t.test('waits as long as an answer asks, and no longer than a timer can', async (t) => {
  const failure = (seconds?: number) =>
    new ApiFailure(429, { code: 'rate_limited', message: 'Too many requests.' }, seconds);
  t.equal(failure().waitOf(0), 0);
  t.equal(failure().waitOf(5_000), 5_000);
  t.equal(failure(-1).waitOf(0), 0);
  t.equal(failure(2).waitOf(5_000), 5_000);
  t.equal(failure(6).waitOf(5_000), 6_000);
  // A timer that is to wait a millisecond longer fires at once.
  t.equal(failure(2_147_483).waitOf(5_000), 2_147_483_000);
  t.equal(failure(2_147_484).waitOf(5_000), 2_147_483_647);
  t.equal(failure(31 * 86_400).waitOf(5_000), 2_147_483_647);
});
