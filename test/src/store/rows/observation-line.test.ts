import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { observationJson } from '../../../../src/store/observation-json.ts';
import { lineMaker } from '../../../../src/store/rows/observation-line.ts';
import type { ObservationRow } from '../../../../src/store/rows/observation-row.ts';
import { observationOf } from '../../../../src/store/rows/stored.ts';

const NO_PAYLOADS = [null, null, null];
const TIMES = { createdAt: 1_700_000_000_000, updatedAt: 1_700_000_000_001 };

/** Ids and words with all that has a form of its own: spans, texts with quotes, bytes, and no id. */
const id = fc.constantFrom(
  ...['0123456789abcdef', '"\\"456789abcdef', 'a', ''].map((text) => `:${text}`),
  ...['own', '"', ':0123456789abcdef0', Buffer.from(':0123456789abcdef')],
);
const row = fc.record({
  key: id,
  longId: fc.constantFrom(null, 'x'.repeat(65)),
  parent: fc.option(id),
  external: fc.constantFrom(null, 's', 'p', '{"trace_id":"t","span_id":"s"}'),
  version: fc.constantFrom(0, 7, '18446744073709551615'),
  cost: fc.constantFrom(null, 0, 1, 1_234_567_890, 3_000_000_000),
});
const traceIds = fc.constantFrom('0123456789abcdef0123456789abcdef', 'a "trace"', 'x'.repeat(60));

t.test('a line is the JSON of the observation, whatever its ids are', async () => {
  fc.assert(
    fc.property(row, traceIds, ({ key, longId, parent, external, version, cost }, traceId) => {
      const details = { cost: { input: cost, output: null, total: cost, source: 'sent' } };
      const of: ObservationRow = [
        ...([key, longId, 0, version, 3, parent, 'a name', 4, 1, 1, 0, 2, 5] as const),
        ...(['m', '{"total_tokens":1}', 's', null, null, '{"a":"b"}', external] as const),
        JSON.stringify(details),
      ];
      const about = { projectId: 'proj_1', traceId, newestMs: null, staleBefore: 0 };
      const state = { batch: '1', ...TIMES, merged: null };
      const stored = observationOf(about, of, state, NO_PAYLOADS);
      assert.equal(lineMaker(about)(of, TIMES), observationJson(stored, undefined));
    }),
    { numRuns: 2_000 },
  );
});
