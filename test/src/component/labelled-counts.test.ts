import t from 'tap';
import type { Labels } from '../../../src/component/component.ts';
import { countByLabel } from '../../../src/component/labelled-counts.ts';

t.test('adds a label, and reuses the labels of a known value', async (t) => {
  const added: { amount: number; labels: Labels | undefined }[] = [];
  const counter = {
    add: (amount: number, labels?: Labels) => void added.push({ amount, labels }),
  };
  const count = countByLabel(counter, { exporter: 'otlphttp' }, 'status');
  count('200', 1);
  count('503', 2);
  count('200', 3);
  t.same(added, [
    { amount: 1, labels: { exporter: 'otlphttp', status: '200' } },
    { amount: 2, labels: { exporter: 'otlphttp', status: '503' } },
    { amount: 3, labels: { exporter: 'otlphttp', status: '200' } },
  ]);
  t.equal(added[0]?.labels, added[2]?.labels);
});
