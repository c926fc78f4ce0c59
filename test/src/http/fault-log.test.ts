import t from 'tap';
import type { RequestHead } from '../../../src/component/component.ts';
import { faultLog } from '../../../src/http/fault-log.ts';
import { Refusal, RetryableError } from '../../../src/model/errors.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const HEAD = { path: '/batch' } as RequestHead;

t.test(
  'logs each cause that may pass once in ten seconds, with the number of others',
  async (t) => {
    const logger = recordingLogger();
    const clock = fakeClock();
    const log = faultLog(logger, clock);
    const cause = new Error('canceling statement due to statement timeout');
    const slow = new RetryableError('statement_timeout', 'A statement took too long', { cause });
    for (let i = 0; i < 5; i++) log.failed(slow, HEAD);
    log.failed(new RetryableError('redis_failed', 'Redis cannot be reached'), HEAD);
    const lines = () =>
      logger.lines.map(({ level, fields }) => [level, fields.err, fields.path, fields.suppressed]);
    t.match(lines(), [
      ['warn', { code: 'statement_timeout', cause }, '/batch', 0],
      ['warn', { code: 'redis_failed' }, '/batch', 0],
    ]);
    clock.advance(9_999);
    log.failed(slow, HEAD);
    t.equal(logger.lines.length, 2);
    clock.advance(1);
    log.failed(slow, HEAD);
    t.match(lines().slice(2), [['warn', { code: 'statement_timeout' }, '/batch', 5]]);
  },
);

t.test('logs requests whose deadline passed as one cause, and no refusal', async (t) => {
  const logger = recordingLogger();
  const log = faultLog(logger, fakeClock());
  log.late(HEAD);
  log.failed(new RetryableError('too_late', 'answered'), HEAD);
  log.late(HEAD);
  log.failed(new Refusal('unauthorized', 'No key.'), HEAD);
  t.same(logger.lines, [
    {
      level: 'warn',
      fields: { path: '/batch', suppressed: 0 },
      message: 'Request took too long; its client retries',
    },
  ]);
});
