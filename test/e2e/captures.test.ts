import t from 'tap';
import { readBackCaptures } from './captures.ts';

t.setTimeout(120_000);

t.test('what real SDKs send reads back as they meant it', (t) => readBackCaptures(t));
