import t from 'tap';
import { holdWhateverArrives } from './bad-inputs.ts';

t.setTimeout(300_000);

t.test('the daemon holds whatever arrives', (t) => holdWhateverArrives(t, { exporter: 'sqlite' }));
