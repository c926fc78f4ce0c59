import t from 'tap';
import { RetryableError, refusalOf } from '../../../src/model/errors.ts';

t.test('a question that took too long is 504, without an invitation to repeat it', (t) => {
  const cause = new RetryableError('query_timeout', 'too slow', { retryAfterMs: 1000 });
  const expected = { code: 'query_timeout', status: 504, message: 'too slow', cause };
  t.match(refusalOf(cause), { ...expected, retryAfterMs: undefined });
  t.end();
});

t.test('any other retryable error is 503 with the time of its retry', (t) => {
  const error = new RetryableError('statement_timeout', 'too slow', { retryAfterMs: 2000 });
  t.match(refusalOf(error), { code: 'unavailable', status: 503, retryAfterMs: 2000 });
  t.match(refusalOf(new RetryableError('x', 'y')), { retryAfterMs: 1000 });
  t.end();
});
