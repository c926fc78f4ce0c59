import fc from 'fast-check';
import type { TreeObservation } from '../../../../ui/api/types.ts';

/** An observation of a tree with these members, and nothing else known. */
export function observation(given: Partial<TreeObservation> & { id: string }): TreeObservation {
  return {
    ...{ parent_id: null, name: given.id, kind: 'span', status: 'success', state: 'finished' },
    ...{ start_time: null, end_time: null, latency_ms: null, ttft_ms: null, model: null },
    ...{ provider: null, usage: null, cost: null, cost_source: null },
    ...{ counted: true, cost_counted: true, cycle: false },
    ...{
      input_bytes: null,
      output_bytes: null,
      error: null,
      updated_at: '2026-01-01T00:00:00.000Z',
    },
    ...given,
  };
}

const instant = fc.oneof(
  fc.constant(null),
  fc
    .date({ min: new Date('2026-01-01'), max: new Date('2026-01-02'), noInvalidDate: true })
    .map((date) => date.toISOString()),
  fc.constantFrom('0001-01-01T00:00:00Z', '9999-12-31T23:59:59.999999999Z', 'no time'),
);

/** Any observations: trees, cycles, orphans, repeated ids, times that are missing, far off or in the wrong order. */
export const anyObservations = fc
  .array(
    fc.record({
      id: fc.integer({ min: 0, max: 40 }),
      parent: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 45 })),
      start_time: instant,
      end_time: instant,
      state: fc.constantFrom('running' as const, 'finished' as const, 'error' as const),
      cycle: fc.boolean(),
    }),
    { maxLength: 40 },
  )
  .map((rows) =>
    rows.map(({ id, parent, ...rest }) =>
      observation({ ...rest, id: `o${id}`, parent_id: parent === null ? null : `o${parent}` }),
    ),
  );

/** A trace of this many observations: chains of ten below the root. */
export function largeTrace(count: number): TreeObservation[] {
  const start = Date.parse('2026-01-01T00:00:00Z');
  const at = (ms: number): string => new Date(start + ms).toISOString();
  return Array.from({ length: count }, (_, index) =>
    observation({
      id: `o${index}`,
      parent_id: index === 0 ? null : index % 10 === 1 ? 'o0' : `o${index - 1}`,
      start_time: at(index),
      end_time: at(index === 0 ? count + 10 : index + 10 - (index % 10)),
    }),
  );
}
