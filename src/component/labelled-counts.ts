import type { Counter, Labels } from './component.ts';

/**
 * Returns a function that adds `amount` to a counter with one more label, `name`, of this value. Hot path: the labels of each value are
 * made once, because a counter looks new labels up by their text. The values must be few, as those of any label.
 */
export function countByLabel(
  counter: Counter,
  labels: Labels,
  name: string,
): (value: string, amount: number) => void {
  const known = new Map<string, Labels>();
  return (value, amount) => {
    let all = known.get(value);
    if (all === undefined) {
      all = { ...labels, [name]: value };
      known.set(value, all);
    }
    counter.add(amount, all);
  };
}
