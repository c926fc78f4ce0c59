import t from 'tap';
import { supervisorPart, workerPart } from '../../../src/supervisor/parts.ts';
import { fakeParts, serviceConfig } from '../../helper/service.ts';

const { receiver, exporter, extension } = fakeParts();

/** An extension that runs in each worker, or where its placement says. */
function placed(id: string, runsIn?: 'first' | 'supervisor') {
  const declared = extension(id);
  const { factory } = declared;
  return runsIn === undefined
    ? declared
    : { ...declared, factory: { ...factory, placement: { runsIn } } };
}

const CONFIG = serviceConfig(
  {
    receivers: [receiver('otlp')],
    exporters: [exporter('file')],
    extensions: [placed('store'), placed('admin', 'first'), placed('health', 'supervisor')],
  },
  { traces: 'otlp >  > file' },
);

t.test('a worker runs the pipelines, and only the first one what runs once', async (t) => {
  const [first, second] = [1, 2].map((index) => workerPart(CONFIG, { index, count: 2 }).service);
  t.same(first?.extensions, ['store', 'admin']);
  t.same(second?.extensions, ['store']);
  t.equal(second?.pipelines.length, 1);
  t.equal(second?.telemetry.metrics.level, 'none', 'the supervisor serves the metrics');
});

t.test('the supervisor runs no pipeline, and the extensions that watch', async (t) => {
  const { service, receivers, exporters } = supervisorPart(CONFIG);
  t.same(service.extensions, ['health']);
  t.same(service.pipelines, []);
  t.equal(receivers.size + exporters.size, 0);
});
