import t from 'tap';
import {
  isUsableAfter,
  postgresError,
  troubleOf,
} from '../../../../extensions/postgres/connection/errors.ts';
import { PermanentError, RetryableError } from '../../../../src/model/errors.ts';

const failed = (code?: string): Error =>
  Object.assign(new Error('as the driver says it'), code === undefined ? {} : { code });

t.test('what the data is at fault for comes again; all else may pass', async (t) => {
  const ofData = { '22021': 'a byte that is no text', '23514': 'a constraint', '54000': 'a limit' };
  for (const [code, what] of Object.entries(ofData)) {
    t.match(postgresError(failed(code)), { name: 'PermanentError', code: 'storage_refused' }, what);
  }
  const passing = {
    '08006': 'a connection that broke',
    '25006': 'a standby that took over, or a database that is read only',
    '28P01': 'a password that is being changed',
    '40P01': 'a deadlock',
    '42501': 'rights that are being changed',
    '42P01': 'tables that are being made',
    '53100': 'a full disk',
    '53200': 'no memory',
    '53300': 'too many connections',
    '55P03': 'a lock that was not had in time',
    '57014': 'a statement that took too long',
    '57P01': 'a shutdown',
    '57P03': 'a start',
    '58030': 'a disk that fails',
    XX000: 'a fault of the server',
    ECONNREFUSED: 'no server',
  };
  for (const [code, what] of Object.entries(passing)) {
    const error = postgresError(failed(code));
    t.match(error, { name: 'RetryableError', code: 'storage_failed', retryAfterMs: 1000 }, what);
    t.equal((error.cause as Error).message, 'as the driver says it');
  }
  t.match(postgresError(failed()), { name: 'RetryableError' }, 'a time-out of the driver');
});

t.test('what keeps everybody out is told from a statement that fails', (t) => {
  const answered = (code: string) => Object.assign(failed(code), { severity: 'ERROR' });
  const fatal = (code: string) => Object.assign(failed(code), { severity: 'FATAL' });
  t.match(troubleOf(failed('ECONNREFUSED')), { isAway: true, message: /ECONNREFUSED/ });
  t.match(troubleOf(failed()), { isAway: true, message: /cannot be reached/ });
  t.match(troubleOf(fatal('53300')), { isAway: true, message: /no connection left/ });
  t.match(troubleOf(fatal('28000')), { isAway: true, message: /this role/ });
  t.match(troubleOf(fatal('57P01')), { isAway: true, message: /going down/ });
  t.match(troubleOf(answered('25006')), { isAway: false, message: /read-only/ });
  t.match(troubleOf(answered('53100')), { isAway: false, message: /disk .* full/ });
  for (const code of ['57014', '40P01', '42P01', '22021'])
    t.equal(troubleOf(answered(code)), undefined);
  t.notOk(isUsableAfter(answered('25006')), 'another server took over');
  t.notOk(isUsableAfter(failed()));
  t.ok(isUsableAfter(answered('57014')));
  t.end();
});

t.test('what has been said already stays as it was said', async (t) => {
  for (const error of [new PermanentError('a', 'a'), new RetryableError('b', 'b')]) {
    t.equal(postgresError(error), error);
  }
});
