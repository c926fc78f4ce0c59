import t from 'tap';
import { z } from 'zod';
import { moment } from '../../../src/control/moment.ts';
import { ControlError, readArguments, responseOf } from '../../../src/control/protocol.ts';
import { recordingLogger } from '../../helper/settings.ts';

const schema = z.strictObject({
  plan: z.enum(['free', 'pro']).optional(),
  until: moment.optional(),
  limits: z.strictObject({ events: z.int().min(1) }).optional(),
});

t.test('takes a date, and a date and time with offset', async (t) => {
  for (const until of ['2027-01-31', '2027-01-31T08:00:00Z', '2027-01-31T08:00:00.5+01:00']) {
    t.same(readArguments(schema, { until }), { until });
  }
});

t.test('an argument that is not valid is named with the rule that it breaks', async (t) => {
  const time =
    'until must be an ISO 8601 date, or date and time with offset, such as 2027-01-31T08:00:00Z';
  for (const [args, message] of [
    [{ plan: 'gold' }, 'plan must be one of free, pro'],
    [{ until: '2027-01-31T08:00:00' }, time],
    [{ until: '2027-02-30' }, time],
    [{ limits: { events: 0 } }, 'limits.events must be at least 1'],
    [{ limits: { events: 'x' } }, 'limits.events must be a number'],
    [1, 'must be an object'],
  ] as const) {
    t.throws(() => readArguments(schema, args), { code: 'invalid_request', message });
  }
});

t.test('an error of the caller keeps its code, and a fault of the program is logged', async (t) => {
  const logger = recordingLogger();
  const failing = (error: Error) => () => Promise.reject(error);
  t.same(await responseOf(failing(new ControlError('busy', 'try later')), logger), {
    error: { code: 'busy', message: 'try later' },
  });
  t.same(logger.lines, []);
  const fault = Object.assign(new Error('no such file'), { code: 'ENOENT' });
  t.same(await responseOf(failing(fault), logger), {
    error: { code: 'internal', message: 'no such file' },
  });
  t.match(logger.lines, [{ level: 'error', message: 'Control command failed' }]);
  t.same(await responseOf(async () => undefined, logger), { result: null });
});
