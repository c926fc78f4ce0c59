import t from 'tap';
import { createPlaces, projectShare } from '../../../src/read/places.ts';
import { aTenant } from '../../helper/batches.ts';

const of = (projectId: string, keyId: string) => aTenant({ projectId, keyId });

t.test('places are bounded for a key, for a project and for all', (t) => {
  const places = createPlaces({ what: 'streams', key: 2, project: 3, all: 4, retryMs: 1000 });
  const leave = places.take(of('p', 'k1'));
  places.take(of('p', 'k1'));
  t.throws(() => places.take(of('p', 'k1')), {
    ...{ code: 'rate_limited', status: 429, retryAfterMs: 1000 },
    message: 'This key has 2 streams. Try again.',
  });
  places.take(of('p', 'k2'));
  t.throws(() => places.take(of('p', 'k2')), {
    ...{ code: 'rate_limited', status: 429 },
    message: 'This project has 3 streams. Try again.',
  });
  places.take(of('q', 'k3'));
  t.throws(() => places.take(of('q', 'k3')), { code: 'unavailable', status: 503 });
  leave();
  leave();
  t.equal(places.taken, 3, 'a place is given back once');
  places.take(of('q', 'k3'));
  t.throws(() => places.take(of('r', 'k4')), { code: 'unavailable' });
  t.end();
});

t.test('one project leaves places for others', (t) => {
  const shares = [1, 2, 4, 8, 9, 64].map(projectShare);
  t.same(shares, [1, 1, 3, 7, 7, 56]);
  t.end();
});
