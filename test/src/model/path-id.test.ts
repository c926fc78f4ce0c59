import t from 'tap';
import { idOfSegment, segmentOf } from '../../../src/model/path-id.ts';

const IDS = ['.', '..', '~.', '~..', '~~.', '...', '~', '~...', 'a', 'a/b', '%2e', '%', '~a', '中'];

t.test('every id has a segment of its own, which a URL keeps', async (t) => {
  for (const id of IDS) {
    const segment = segmentOf(id);
    t.equal(new URL(`http://host/traces/${segment}`).pathname, `/traces/${segment}`, id);
    t.equal(idOfSegment(decodeURIComponent(segment)), id);
  }
  t.equal(new Set(IDS.map(segmentOf)).size, IDS.length);
});

t.test('a segment is the percent escape of its id, except for dots', async (t) => {
  for (const id of ['...', '~', '~...', 'a', 'a/b', '%2e', '~a']) {
    t.equal(segmentOf(id), encodeURIComponent(id));
  }
  t.same([segmentOf('.'), segmentOf('..')], ['~.', '~..']);
  t.same([idOfSegment('.'), idOfSegment('..')], ['.', '..']);
});
