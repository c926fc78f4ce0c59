import type { Test } from 'tap';
import t from 'tap';
import { createHealth } from '../../../src/component/health.ts';
import { Descriptors } from '../../../src/net/descriptors.ts';
import { reportDescriptors } from '../../../src/telemetry/descriptor-report.ts';
import { createMetrics } from '../../../src/telemetry/metrics.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

const LIMIT = 64;

function reported(t: Test, limit = LIMIT) {
  const [clock, logger, descriptors] = [fakeClock(), recordingLogger(), new Descriptors(limit)];
  const health = createHealth(clock);
  health.enter('running');
  const end = reportDescriptors(
    { metrics: createMetrics(clock), health, logger, clock },
    descriptors,
  );
  t.teardown(end);
  /** A connection takes the last descriptor. */
  const shorten = () => descriptors.areShortFor({ _handle: { fd: limit - 1 } }, false);
  return { clock, logger, health, shorten, end };
}

t.test('logs a shortage once in ten seconds, with the number of those between', async (t) => {
  const { clock, logger, shorten } = reported(t);
  for (let i = 0; i < 4; i++) shorten();
  clock.advance(9_999);
  shorten();
  t.equal(logger.lines.length, 1);
  clock.advance(1);
  shorten();
  const message = 'Connections closed: few file descriptors are left';
  t.match(logger.lines, [
    { level: 'warn', message, fields: { limit: LIMIT, suppressed: 0, remedy: /ulimit -n/ } },
    { level: 'warn', message, fields: { suppressed: 4 } },
  ]);
});

t.test('health shows a shortage for ten seconds', async (t) => {
  const { clock, health, shorten, end } = reported(t);
  t.match(health.report(true), { status: 'running', components: [{ id: 'file_descriptors' }] });
  shorten();
  clock.advance(9_999);
  t.match(health.report(false), {
    ...{ ready: true, status: 'degraded' },
    components: [{ healthy: false, message: /ulimit -n/, details: { limit: LIMIT } }],
  });
  clock.advance(1);
  t.match(health.report(false), { status: 'running', components: [] });
  end();
  t.same(health.report(true).components, []);
});

t.test('a system without a known limit has no report', async (t) => {
  const { health, logger, shorten } = reported(t, Number.POSITIVE_INFINITY);
  shorten();
  t.same(health.report(true).components, []);
  t.same(logger.lines, []);
});
