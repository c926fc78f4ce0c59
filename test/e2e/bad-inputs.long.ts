import t from 'tap';
import { holdWhateverArrives } from './bad-inputs.ts';

t.setTimeout(300_000);

t.test('the daemon answers every hostile request', (t) =>
  holdWhateverArrives(t, { exporter: 'sqlite' }),
);
