import t from 'tap';
import { capability, findOffer, offer } from '../../../src/component/capability.ts';
import { deferred } from '../../../src/component/deferred.ts';

class Meter {
  readonly #factor: number;
  readonly unit = 'items';

  constructor(factor: number) {
    this.#factor = factor;
  }

  scaled(value: number): number {
    return this.#factor * value;
  }

  labelFor(name: string): string {
    return `${this.unit} of ${name}`;
  }
}

t.test('reaches the object that is current at the time of use', async (t) => {
  let current: Meter | undefined;
  const meter = deferred<Meter>('extension meter', () => current);
  t.throws(() => meter.unit, /^extension meter is not started$/);
  current = new Meter(2);
  t.equal(meter.unit, 'items');
  const { scaled } = meter;
  t.equal(scaled(21), 42, 'methods keep their object');
  t.equal(meter.scaled, scaled, 'and are bound once');
  current = new Meter(3);
  t.equal(meter.scaled(21), 63, 'after a restart too');
  t.equal(scaled(21), 42);
  Object.assign(current, { scaled: (value: number) => value });
  t.equal(meter.scaled(21), 21, 'also a method that was replaced');
  current = undefined;
  t.throws(() => meter.scaled(1), /is not started/);
});

t.test('has its early members before the start', async (t) => {
  let current: Meter | undefined;
  const meter = deferred<Meter>('extension meter', () => current, { labelFor: (name) => name });
  t.equal(meter.labelFor('early'), 'early');
  t.throws(() => meter.scaled(1), /is not started/);
  current = new Meter(1);
  t.equal(meter.labelFor('late'), 'late', 'and keeps them');
});

t.test('offers are found by their capability, not by its name', async (t) => {
  const one = capability<number>('meter');
  const other = capability<number>('meter');
  const offers = [offer(one, 1)];
  t.equal(findOffer(offers, one), 1);
  t.equal(findOffer(offers, other), undefined);
  t.equal(findOffer([offer(one, 2), ...offers], one), 2, 'the first one counts');
});
