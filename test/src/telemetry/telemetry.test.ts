import { execFileSync, spawn } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import { createHealth } from '../../../src/component/health.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { createLogger, withFields } from '../../../src/telemetry/logger.ts';
import { createMetrics, labelled } from '../../../src/telemetry/metrics.ts';
import { startMetricsServer } from '../../../src/telemetry/metrics-server.ts';
import { registerProcessMetrics } from '../../../src/telemetry/process-metrics.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const LOOPBACK = { host: '127.0.0.1', port: 0 };

t.test('a log line is one JSON object with the message and its fields', async (t) => {
  const lines: string[] = [];
  const logger = createLogger({
    level: 'info',
    repeated_lines: 100,
    encoding: 'json',
    write: (line) => void lines.push(line),
  });
  withFields(logger, { component: 'sqlite' }).info({ path: 'data' }, 'Store opened.');
  logger.debug({}, 'Not written.');
  logger.setLevel('debug');
  logger.debug({}, 'Written.');
  await logger.flush();
  t.equal(lines.length, 2);
  t.match(JSON.parse(lines[0] ?? ''), {
    time: /^\d{4}-.*Z$/,
    level: 'info',
    component: 'sqlite',
    path: 'data',
    message: 'Store opened.',
  });
});

t.test(
  'bounds the lines of one component and text, and counts those that it suppresses',
  async (t) => {
    const lines: string[] = [];
    let now = 0;
    const root = createLogger({
      level: 'debug',
      encoding: 'json',
      repeated_lines: 3,
      write: (line) => void lines.push(line),
      now: () => now,
    });
    const logger = withFields(root, { component: 'otlp' });
    const written = () => lines.splice(0).map((line) => JSON.parse(line));

    for (let n = 1; n <= 3; n++) logger.warn({ n }, 'Refused');
    t.match(
      written(),
      [{ n: 1 }, { n: 2 }, { n: 3 }],
      'exactly at the bound every line is written',
    );
    now = 4_000;
    for (let n = 4; n <= 9; n++) logger.warn({ n }, 'Refused');
    const [note, ...others] = written();
    t.match(note, { message: 'Further lines suppressed', line: 'Refused', seconds: 6 });
    t.match(note, { level: 'warn', component: 'otlp' });
    t.same(others, [], 'the bound is noted once');

    logger.warn({}, 'Another text');
    withFields(root, { component: 'runs' }).warn({}, 'Refused');
    for (let n = 0; n < 9; n++) logger.debug({}, 'Details');
    t.equal(written().length, 11, 'other texts, other components and debug lines are written');

    now = 9_999;
    logger.warn({}, 'Refused');
    t.same(written(), []);
    now = 10_000;
    logger.warn({ n: 11 }, 'Refused');
    logger.warn({ n: 12 }, 'Refused');
    const [after, next] = written();
    t.match(after, { message: 'Refused', n: 11, suppressed: 7 });
    t.equal(next.suppressed, undefined);

    logger.warn({}, 'Refused');
    logger.warn({}, 'Refused');
    now = 9_000;
    logger.warn({ n: 15 }, 'Refused');
    t.match(written().at(-1), { n: 15, suppressed: 1 }, 'a clock that goes back does not suppress');
  },
);

t.test('masks credentials in every part of a log line', async (t) => {
  for (const encoding of ['json', 'console'] as const) {
    const lines: string[] = [];
    const logger = createLogger({
      level: 'debug',
      repeated_lines: 100,
      encoding,
      write: (line) => void lines.push(line),
    });
    const key = 'ws_0123456789abcdefghijABCDEFGHIJ0123456789abcdefghi';
    logger.warn({ authorization: `Bearer ${key}`, headers: { 'x-api-key': 'hunter2' } }, 'One.');
    logger.warn({ token: 'hunter2', request: { cookie: 'hunter2' }, note: `sent ${key}` }, 'Two.');
    logger.warn(
      { note: 'authorization: bearer hunter2', url: 'redis://me:p@hunter2@db:6379?a@b' },
      'Three.',
    );
    logger.warn({ queue: 'redis://:hunter2@queue:6379' }, 'Of a password alone.');
    logger.error({ error: new Error(`refused ${key}`, { cause: new Error(key) }) }, 'Four.');
    t.equal(lines.length, 5);
    t.notMatch(lines.join(''), 'hunter2');
    t.match(lines.join(''), 'redis://:[REDACTED]@queue:6379');
    t.notMatch(lines.join(''), key);
    t.match(lines.join(''), 'redis://me:[REDACTED]@db:6379?a@b');
  }
});

t.test('logs an error with its code and causes, and the stack of an internal error', async (t) => {
  const lines: string[] = [];
  const logger = createLogger({
    level: 'info',
    repeated_lines: 100,
    encoding: 'json',
    write: (line) => void lines.push(line),
  });
  const cause = new RetryableError('disk_full', 'No room.');
  logger.error({ error: new Error('broken', { cause }) }, 'Failed.');
  logger.error({ error: 'text' }, 'Failed.');
  const [first, second] = lines.map((line) => JSON.parse(line));
  t.match(first.error, {
    message: 'broken',
    stack: /telemetry\.test/,
    cause: { code: 'disk_full' },
  });
  t.notOk(first.error.cause.stack);
  t.equal(second.error, 'text');
});

t.test('logs the first of several failures as their cause', async (t) => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const logger = createLogger({ level: 'info', repeated_lines: 100, encoding: 'json', write });
  const failures = [new RetryableError('disk_full', 'No room.'), new Error('later')];
  logger.warn({ err: new AggregateError(failures, '2 erasures failed') }, 'Retrying');
  t.match(JSON.parse(lines[0] ?? '').err, {
    message: '2 erasures failed',
    cause: { code: 'disk_full', message: 'No room.' },
  });
});

t.test('the console encoding renders readable lines', async (t) => {
  const lines: string[] = [];
  const logger = createLogger({
    level: 'info',
    repeated_lines: 100,
    encoding: 'console',
    write: (line) => void lines.push(line),
  });
  const err = new RetryableError('disk_full', 'No room.', { cause: new Error('why') });
  logger.warn({ component: 'file', path: 'a b', count: 3, err, list: [1] }, 'Cannot write.');
  logger.error({ error: 'plain' }, 'Odd.');
  t.match(
    lines[0],
    /^\S+Z {2}WARN {3}file {2}Cannot write\. {2}path="a b" {2}count=3 {2}list=\[1\] {2}err="disk_full: No room\." {2}cause=why\n {4}Error: why\n {8}at /,
  );
  t.match(lines[1], /error=plain\n$/);
});

t.test('escapes control characters in every encoding', async (t) => {
  const hostile = 'a\x1b[31m\x07\x7f\x9b\u2028\u202e\r\nlevel=error';
  for (const encoding of ['json', 'console'] as const) {
    const lines: string[] = [];
    const logger = createLogger({
      level: 'info',
      repeated_lines: 100,
      encoding,
      write: (line) => void lines.push(line),
    });
    const cause = new Error(hostile);
    logger.warn({ id: '\x1b[2J', path: hostile, list: [hostile], [hostile]: 1 }, hostile);
    logger.warn({ err: new Error(hostile, { cause }), error: hostile }, 'Failed');
    logger.warn({ error: new Error(hostile, { cause }) }, 'Failed');
    for (const line of lines) {
      const text = line.replace(/\n( {4}|$)/g, '');
      t.notMatch(text, /[\p{Cc}\u2028\u202e]/u, encoding);
      t.match(line, '\\u001b');
    }
    if (encoding === 'json') t.equal(JSON.parse(lines[0] ?? '').path, hostile, 'no text is lost');
  }
});

t.test('writes the log to standard error and nothing to standard output', async (t) => {
  const script = `
    import { createLogger } from '${join(process.cwd(), 'src/telemetry/logger.ts')}';
    const logger = createLogger({ level: 'info', repeated_lines: 100, encoding: 'json' });
    logger.info({}, 'Here.');
    await logger.flush();
  `;
  const file = join(t.testdir({ 'script.ts': script }), 'script.ts');
  const output = execFileSync('bash', ['-c', `"${process.execPath}" "${file}" 2>&1 >/dev/null`]);
  t.match(JSON.parse(output.toString()), { message: 'Here.' });
});

/** The exit status of a process that logs lines and ends, with a reader of its standard error. */
async function endOf(t: Test, lines: string, reader: 'closed' | 'stuck'): Promise<number | null> {
  const script = `
    import { createLogger } from '${join(process.cwd(), 'src/telemetry/logger.ts')}';
    const logger = createLogger({ level: 'info', repeated_lines: 100_000, encoding: 'json' });
    await new Promise((resolve) => process.stdin.once('data', resolve));
    ${lines}
    await logger.flush();
    logger.info({}, 'Dropped.');
    process.exit(7);
  `;
  const file = join(t.testdir({ 'script.ts': script }), 'script.ts');
  const child = spawn(process.execPath, [file], { stdio: ['pipe', 'ignore', 'pipe'] });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  t.teardown(() => void child.kill('SIGKILL'));
  if (reader === 'closed') child.stderr.destroy();
  child.stdin.write('begin');
  return ended;
}

t.test('ends though the reader of the log has closed', async (t) => {
  t.equal(await endOf(t, "logger.info({}, 'One.'); logger.info({}, 'Two.');", 'closed'), 7);
});

t.test('ends though the reader of the log does not read', async (t) => {
  const lines = "for (let i = 0; i < 4000; i++) logger.info({ i }, 'x'.repeat(200));";
  t.equal(await endOf(t, lines, 'stuck'), 7);
});

t.test('serves counters, gauges and histograms as text', async (t) => {
  const metrics = createMetrics(fakeClock());
  const counter = metrics.counter('tracectl_test_items_total', 'Items.');
  counter.add(2, { a: '1', b: '2' });
  counter.add(3, { b: '2', a: '1' });
  counter.add(1);
  labelled(metrics, { receiver: 'otlp' }).counter('tracectl_test_items_total', 'Items.').add(7);
  const own = labelled(metrics, { store: 'sqlite' });
  own.counter('tracectl_test_items_total', 'Items.').add(4, { a: '9' });
  const remove = own.gauge('tracectl_test_size_bytes', 'Size.', () => [{ value: 5 }]);
  metrics.gauge('tracectl_test_size_bytes', 'Size.', () => [{ value: 6, labels: { x: 'y' } }]);
  own.histogram('tracectl_test_wait_seconds', 'Wait.').record(0.2, { a: 'b' });
  metrics.histogram('tracectl_test_body_bytes', 'Body.').record(4096);
  metrics.histogram('tracectl_test_group_items', 'Group.').record(12);
  const text = await metrics.text();
  t.match(text, 'tracectl_test_items_total{a="1",b="2"} 5\n');
  t.match(text, 'tracectl_test_items_total 1\n');
  t.match(text, 'tracectl_test_items_total{receiver="otlp"} 7\n');
  t.match(text, 'tracectl_test_items_total{store="sqlite",a="9"} 4\n');
  t.match(text, 'tracectl_test_size_bytes{store="sqlite"} 5\n');
  t.match(text, 'tracectl_test_size_bytes{x="y"} 6\n');
  t.match(text, 'tracectl_test_wait_seconds_bucket{store="sqlite",a="b",le="0.25"} 1\n');
  t.match(text, 'tracectl_test_body_bytes_bucket{le="4096"} 1\n');
  t.match(text, 'tracectl_test_group_items_bucket{le="20"} 1\n');
  t.equal(text.match(/# TYPE tracectl_test_items_total counter/g)?.length, 1);
  remove();
  t.notMatch(await metrics.text(), 'tracectl_test_size_bytes{store="sqlite"}');
});

t.test('waits for a gauge that answers later, and shows no value for one that fails', async (t) => {
  const clock = fakeClock();
  const metrics = createMetrics(clock);
  const own = labelled(metrics, { store: 'redis' });
  const name = 'tracectl_test_used';
  let used = 1;
  own.gauge(name, 'Used.', async () => {
    await new Promise(setImmediate);
    return [{ value: used, labels: { a: 'b' } }];
  });
  const stopRejecting = own.gauge(name, 'Used.', () => Promise.reject(new Error('away')));
  own.gauge(name, 'Used.', () => {
    throw new Error('away');
  });
  t.match(await metrics.text(), 'tracectl_test_used{store="redis",a="b"} 1\n');
  used = 2;
  const text = await metrics.text();
  t.match(text, 'tracectl_test_used{store="redis",a="b"} 2\n', 'no value of an earlier scrape');
  t.equal(text.match(/^tracectl_test_used\{/gm)?.length, 1);
  stopRejecting();
  own.gauge(name, 'Used.', () => new Promise(() => {}));
  let isServed = false;
  const served = metrics.text().then((page) => {
    isServed = true;
    return page;
  });
  clock.advance(1_999);
  await new Promise(setImmediate);
  t.notOk(isServed, 'a source has 2 s');
  clock.advance(1);
  t.match(await served, 'a="b"} 2\n', 'a source that never answers delays no other');
});

t.test('exports the metrics of the process', async (t) => {
  const clock = fakeClock();
  const metrics = createMetrics(clock);
  registerProcessMetrics(metrics, clock, '1.2.3');
  clock.advance(90_000);
  const text = await metrics.text();
  t.match(text, 'tracectl_build_info{version="1.2.3"');
  t.match(text, 'tracectl_process_uptime_seconds 90\n');
  t.match(text, /tracectl_process_cpu_seconds_total \d/);
  t.match(text, /tracectl_process_memory_rss_bytes \d{7}/);
  t.match(text, /tracectl_process_event_loop_utilization_ratio [01]/);
});

async function serving(t: Test) {
  const metrics = createMetrics(fakeClock());
  metrics.counter('tracectl_test_items_total', 'Items.').add(1);
  const server = await startMetricsServer({
    metrics,
    allowedHosts: ['metrics.test'],
    endpoint: LOOPBACK,
    isConfigured: true,
    logger: recordingLogger(),
    clock: systemClock,
  });
  t.teardown(() => server.close());
  return server.address ?? '';
}

/** The server's answer to any bytes. */
function raw(address: string, bytes: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(address.split(':')[1]), '127.0.0.1', () => socket.write(bytes));
    let answer = '';
    socket.setEncoding('latin1');
    socket.on('data', (text) => {
      answer += text;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(answer));
  });
}

t.test(
  'only GET and HEAD of /metrics are answered, and nothing that is sent ends the server',
  async (t) => {
    const address = await serving(t);
    const ask = (line: string) =>
      raw(address, `${line}\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    t.match(await ask('GET // HTTP/1.1'), /^HTTP\/1.1 404/);
    t.match(await ask('GET http://[ HTTP/1.1'), /^HTTP\/1.1 404/);
    t.match(await ask('GET /metricsx HTTP/1.1'), /^HTTP\/1.1 404/);
    t.match(await ask('POST /metrics HTTP/1.1'), /^HTTP\/1.1 405[\s\S]*allow: GET, HEAD/);
    t.match(await ask('HEAD /metrics HTTP/1.1'), /^HTTP\/1.1 200[\s\S]*\r\n\r\n$/);
    t.match(await raw(address, '\u0000\u0001 nonsense\r\n\r\n'), /^HTTP\/1.1 400/);
    const answer = await ask('GET /metrics?name=x HTTP/1.1');
    t.match(answer, 'content-type: text/plain; version=0.0.4; charset=utf-8');
    t.match(answer, 'tracectl_test_items_total 1\n');
  },
);

t.test('refuses a Host or Origin of another site, and accepts allowed_hosts', async (t) => {
  const address = await serving(t);
  const ask = (headers: string) =>
    raw(address, `GET /metrics HTTP/1.1\r\nConnection: close\r\n${headers}\r\n\r\n`);
  t.match(await ask(`Host: ${address}`), /^HTTP\/1.1 200/);
  t.match(await ask('Host: metrics.test:8888'), /^HTTP\/1.1 200/);
  t.match(await ask('Host: evil.test'), /^HTTP\/1.1 421/);
  t.match(await ask(`Host: ${address}\r\nHost: evil.test`), /^HTTP\/1.1 400/);
  t.match(await ask(`Host: ${address}\r\nOrigin: http://evil.test`), /^HTTP\/1.1 403/);
});

t.test('warns if the default address is in use, and rejects if a configured one is', async (t) => {
  const taken = await serving(t);
  const endpoint = { host: '127.0.0.1', port: Number(taken.split(':')[1]) };
  const metrics = createMetrics(fakeClock());
  const logger = recordingLogger();
  const parts = { metrics, endpoint, logger, clock: systemClock };
  await t.rejects(startMetricsServer({ ...parts, isConfigured: true }), {
    message: /cannot serve metrics on 127\.0\.0\.1:\d+: .*EADDRINUSE/,
  });
  const none = await startMetricsServer({ ...parts, isConfigured: false });
  t.equal(none.address, undefined);
  t.match(logger.lines, [{ level: 'warn', message: /address is in use/ }]);
  await none.close();
});

t.test('health reports whether the service is ready, and whether work progresses', async (t) => {
  const clock = fakeClock();
  const health = createHealth(clock);
  t.match(health.report(false), { ready: false, status: 'starting', components: [] });
  health.enter('running');
  clock.advance(5000);
  t.match(health.report(false), { ready: true, status: 'running', uptime: 5000 });

  const state = { ready: true, healthy: true };
  const forget = health.register('queue', () => ({ ...state, details: { queued_entries: 2 } }));
  t.same(health.report(false).components, [], 'the short report has unhealthy components only');
  t.match(health.report(true).components, [{ id: 'queue', details: { queued_entries: 2 } }]);
  state.healthy = false;
  t.match(health.report(false), { ready: true, status: 'degraded', components: [{ id: 'queue' }] });
  state.ready = false;
  t.match(health.report(false), { ready: false, status: 'degraded' });
  forget();
  health.register('odd', () => {
    throw new Error('broken');
  });
  t.match(health.report(false).components, [{ id: 'odd', healthy: false, message: 'broken' }]);
  health.enter('stopping');
  t.match(health.report(false), { ready: false, status: 'stopping' });
});
