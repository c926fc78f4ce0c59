import t from 'tap';
import {
  isUsableAfter,
  outageOf,
  postgresError,
} from '../../../../extensions/postgres/connection/errors.ts';
import {
  PermanentError,
  Refusal,
  RetryableError,
  StoreError,
} from '../../../../src/model/errors.ts';

const failed = (code?: string): Error =>
  Object.assign(new Error('message of the driver'), code === undefined ? {} : { code });

t.test('takes errors of the data for permanent and all others for retryable', async (t) => {
  const permanent = { '22021': 'invalid text', '23514': 'a constraint', '54000': 'a limit' };
  for (const [code, what] of Object.entries(permanent)) {
    t.match(postgresError(failed(code)), { name: 'PermanentError', code: 'storage_refused' }, what);
  }
  const retryable = {
    '08006': 'a broken connection',
    '25006': 'a former primary, or a read-only database',
    '28P01': 'a password that does not match yet',
    '40P01': 'a deadlock',
    '42501': 'a right that is not granted yet',
    '42P01': 'a table that does not exist yet',
    '53100': 'a full disk',
    '53200': 'no memory',
    '53300': 'too many connections',
    '57P01': 'a shutdown',
    '57P03': 'a server that starts up',
    '58030': 'an I/O error',
    XX000: 'an internal error of the server',
    ECONNREFUSED: 'no server',
  };
  for (const [code, what] of Object.entries(retryable)) {
    const error = postgresError(failed(code));
    t.match(error, { name: 'RetryableError', code: 'storage_failed', retryAfterMs: 1000 }, what);
    t.equal((error.cause as Error).message, 'message of the driver');
  }
  const tooSlow = { '55P03': 'a lock timeout', '57014': 'a statement timeout' };
  for (const [code, what] of Object.entries(tooSlow)) {
    const expected = { name: 'RetryableError', code: 'statement_timeout', retryAfterMs: 1000 };
    t.match(postgresError(failed(code)), expected, what);
  }
  t.match(
    postgresError(failed()),
    { name: 'RetryableError' },
    'a timeout of the driver has no code',
  );
});

t.test('tells an outage from a statement that fails', (t) => {
  const answered = (code: string) => Object.assign(failed(code), { severity: 'ERROR' });
  const fatal = (code: string) => Object.assign(failed(code), { severity: 'FATAL' });
  t.match(outageOf(failed('ECONNREFUSED')), { isAway: true, message: /ECONNREFUSED/ });
  t.match(outageOf(failed()), {
    isAway: true,
    message: /^Postgres cannot be reached \(message of the driver\)\. Check/,
  });
  t.match(outageOf(new Error('SASL: client password must be a string')), {
    isAway: true,
    message: /^Postgres asks for a password.* Add it/,
  });
  t.match(outageOf(new Error('The server does not support SSL connections')), {
    isAway: true,
    message: /^Postgres has no TLS\. Turn it on/,
  });
  t.match(outageOf(fatal('55000')), {
    isAway: true,
    message: /^Postgres refuses connections \(55000\): message of the driver\. See/,
  });
  t.match(outageOf(fatal('53300')), {
    isAway: true,
    message: /^Postgres has no connection left \(53300\)\. Raise/,
  });
  t.match(outageOf(fatal('28000')), {
    isAway: true,
    message: /^Postgres rejected the role \(28000\)\. Check/,
  });
  t.match(outageOf(fatal('57P01')), { isAway: true, message: /shutting down/ });
  t.match(outageOf(answered('25006')), { isAway: false, message: /read-only/ });
  t.match(outageOf(answered('53100')), { isAway: false, message: /disk .* full/ });
  for (const code of ['42P01', '3F000']) {
    t.match(outageOf(answered(code)), { isAway: false, message: /lacks tables .* Check/ });
  }
  t.match(outageOf(answered('42501')), { isAway: false, message: /lacks a right .* Grant/ });
  for (const code of ['57014', '40P01', '22021']) t.equal(outageOf(answered(code)), undefined);
  t.notOk(isUsableAfter(answered('25006')), 'the server may be a former primary');
  t.notOk(isUsableAfter(failed()));
  t.ok(isUsableAfter(answered('57014')));
  t.end();
});

t.test('leaves a typed error unchanged', async (t) => {
  const typed = [
    new PermanentError('a', 'a'),
    new RetryableError('b', 'b'),
    new Refusal('unavailable', 'c'),
    new StoreError('unknown_project', 'd'),
  ];
  for (const error of typed) {
    t.equal(postgresError(error), error);
    t.equal(outageOf(error), undefined);
  }
  const namesake = Object.assign(failed('23514'), { name: 'StoreError' });
  t.match(postgresError(namesake), { code: 'storage_refused' }, 'the name alone is no type');
});
