import t from 'tap';
import { onOneLine } from '../../../../src/model/json/one-line.ts';

t.test('removes line ends between tokens, and keeps everything else', (t) => {
  t.equal(onOneLine('{\n  "a": 1,\r\n  "b": "x\\n y"\r}'), '{"a": 1,"b": "x\\n y"}');
  t.equal(onOneLine('{ "a":  1 }'), '{ "a":  1 }');
  t.end();
});
