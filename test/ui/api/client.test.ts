import t from 'tap';
import { ApiFailure, secondsUntil } from '../../../ui/api/client.ts';

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

t.test('reads the seconds and the date of a Retry-After', async (t) => {
  const now = Date.parse('2026-11-03T10:00:00.500Z');
  t.equal(secondsUntil('120', now), 120);
  t.equal(secondsUntil('Tue, 03 Nov 2026 10:02:00 GMT', now), 120);
  t.equal(secondsUntil('Tue, 03 Nov 2026 09:00:00 GMT', now), 0);
  for (const none of [null, '', 'soon']) t.equal(secondsUntil(none, now), undefined);
});
