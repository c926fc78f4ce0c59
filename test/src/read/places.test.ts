import fc from 'fast-check';
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

const OPEN = { what: 'streams', key: 9, project: 9, retryMs: 1000 };

t.test('a project within its share gets the place of one above its share', (t) => {
  const places = createPlaces({ ...OPEN, all: 4 });
  const asked: string[] = [];
  const take = (project: string, name: string) =>
    places.take(of(project, project), () => asked.push(name));
  take('p', 'p1');
  take('p', 'p2');
  take('q', 'q1');
  const leave = take('p', 'p3');
  t.throws(() => take('p', 'p4'), { code: 'unavailable' }, 'it is above its share');
  take('r', 'r1');
  t.same(asked, ['p3'], 'the last one of the largest project');
  t.equal(places.taken, 5, 'until it has ended');
  t.throws(() => take('q', 'q2'), { code: 'unavailable' }, 'it has its share');
  leave();
  t.equal(places.taken, 4);
  t.throws(() => take('p', 'p5'), { code: 'unavailable' }, 'the place is the other one now');
  take('s', 's1');
  t.same(asked, ['p3', 'p2']);
  t.throws(() => take('u', 'u1'), { code: 'unavailable' }, 'each of four projects has one');
  t.end();
});

t.test('one project alone, and requests that cannot end early, give no way', (t) => {
  const alone = createPlaces({ ...OPEN, all: 2 });
  alone.take(of('p', 'k'), () => t.fail());
  alone.take(of('p', 'k'), () => t.fail());
  t.throws(() => alone.take(of('p', 'k')), { code: 'unavailable' });
  const fixed = createPlaces({ ...OPEN, all: 2 });
  fixed.take(of('p', 'k'));
  fixed.take(of('p', 'k'));
  t.throws(() => fixed.take(of('q', 'k2')), { code: 'unavailable' });
  t.end();
});

t.test('whatever is taken and left, only projects above their share give way', (t) => {
  const step = fc.record({ project: fc.integer({ min: 0, max: 5 }), leaves: fc.boolean() });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 60 }), (all, steps) => {
      const places = createPlaces({ ...OPEN, all });
      const held: { project: number; leave: () => void }[] = [];
      const heldBy = (project: number) => held.filter((each) => each.project === project).length;
      let newcomer = { own: 0, share: 0 };
      for (const { project, leaves } of steps) {
        if (leaves) {
          held.shift()?.leave();
          continue;
        }
        const projects = new Set(held.map((each) => each.project)).add(project).size;
        newcomer = { own: heldBy(project), share: Math.max(1, Math.floor(all / projects)) };
        const place = { project, leave: () => {} };
        try {
          place.leave = places.take(of(`p${project}`, `k${project}`), () => {
            const { own, share } = newcomer;
            if (own >= share || heldBy(project) <= share) throw new Error('it is in its share');
            held.splice(held.indexOf(place), 1);
            place.leave();
          });
          held.push(place);
        } catch (error) {
          if ((error as { code?: string }).code !== 'unavailable') throw error;
          if (held.length < all) throw new Error('a place was free', { cause: error });
        }
        if (held.length > all || places.taken !== held.length) throw new Error('too many');
      }
    }),
  );
  t.end();
});
