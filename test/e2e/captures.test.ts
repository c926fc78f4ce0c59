import t from 'tap';
import { readBackCaptures } from './captures.ts';

t.setTimeout(120_000);

t.test('requests of real SDKs read back with their content', (t) => readBackCaptures(t));
