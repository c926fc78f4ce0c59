import t from 'tap';
import { config as debugConfig } from '../../../exporters/debug/config.ts';
import { factory as debug } from '../../../exporters/debug/factory.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { seal } from '../../../src/model/seal.ts';
import { reject } from '../../../src/model/verbs.ts';
import { nativeBatch, nativeEvent, observationBatch, received } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { testSettings } from '../../helper/settings.ts';

const NEVER = new AbortController().signal;

async function debugging(config: object) {
  const clock = fakeClock();
  const settings = testSettings('exporter', 'debug', { clock });
  const exporter = await debug.create(settings, debugConfig.parse(config));
  await exporter.start();
  return { exporter, clock, lines: settings.logger.lines };
}

t.test('basic logs a line per batch without its content', async (t) => {
  const { exporter, lines } = await debugging({});
  const batch = nativeBatch(3);
  await exporter.consume(batch);
  t.match(lines, [{ level: 'info', fields: { batch: batch.id, data: 'raw', items: 3 } }]);
  t.equal(lines.length, 1);
  t.notMatch(JSON.stringify(lines), 'hello');
});

t.test('normal also logs the items, detailed also their payloads', async (t) => {
  const normal = await debugging({ verbosity: 'normal' });
  const request = received(nativeBatch(3));
  reject(request, 1, 'invalid_field', 'events[1].kind');
  const raw = seal(request, requestContext());
  await normal.exporter.consume(raw);
  t.same(
    normal.lines.slice(1).map(({ fields }) => fields.raw_event),
    [`raw_${raw.id}_0`, `raw_${raw.id}_2`],
  );
  t.notMatch(JSON.stringify(normal.lines), 'hello');

  const detailed = await debugging({ verbosity: 'detailed' });
  await detailed.exporter.consume(observationBatch());
  t.match(detailed.lines[1]?.fields, { name: 'chat', kind: 'generation', item: /hello/ });
});

t.test('logs the payload of its own item if other observations are missing', async (t) => {
  const { exporter, lines } = await debugging({ verbosity: 'detailed' });
  const source = nativeBatch([nativeEvent({ id: 'first' }), nativeEvent({ id: 'second' })]);
  const whole = observationBatch(source);
  await exporter.consume({ ...whole, observations: whole.observations.slice(1) });
  t.match(lines[1]?.fields, { item: /"second"/ });
});

t.test('samples the batches of each second', async (t) => {
  const { exporter, clock, lines } = await debugging({
    sampling_initial: 2,
    sampling_thereafter: 3,
  });
  for (let i = 0; i < 10; i++) await exporter.consume(nativeBatch(1));
  t.equal(lines.length, 4, 'the first two, the fifth and the eighth');
  clock.advance(1000);
  await exporter.consume(nativeBatch(1));
  t.equal(lines.length, 5);
  const none = await debugging({ sampling_initial: 1, sampling_thereafter: 0 });
  for (let i = 0; i < 3; i++) await none.exporter.consume(nativeBatch(1));
  t.equal(none.lines.length, 1);
});

t.test('reports a batch that cannot be logged, and does not fail', async (t) => {
  const { exporter, lines } = await debugging({ verbosity: 'detailed' });
  const broken = nativeBatch(1, { encoding: 'gzip', body: Buffer.from('no gzip') });
  await exporter.consume(broken);
  t.match(lines.at(-1), { level: 'warn', message: 'Batch could not be logged' });
  await exporter.shutdown(NEVER);
  await t.rejects(exporter.consume(nativeBatch(1)), { code: 'shutting_down' });
});
