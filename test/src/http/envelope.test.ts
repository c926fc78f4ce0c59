import fc from 'fast-check';
import t from 'tap';
import { renderEnvelope } from '../../../src/http/envelope.ts';
import { rawEventId } from '../../../src/model/batch.ts';
import { indexOf, itemId } from '../../../src/model/formats.ts';
import { rawBatch } from '../../helper/batches.ts';

const IDS = fc.constantFrom(
  ...[
    '"a"',
    '"ü\u2028\u007f"',
    '"\ud83d\ude00"',
    '"\\u0061"',
    '"\\""',
    '"\\\\"',
    '""',
    '7',
    'null',
    '"\\ud800"',
  ],
  ...[255, 256, 257, 4096, 4097].map((length) => JSON.stringify('x'.repeat(length))),
);

function answered(ids: readonly string[]) {
  const events = ids.map((id) => `{"id":${id}}`).join(',');
  const batch = rawBatch('native', Buffer.from(`{"events":[${events}]}`), ids.length);
  const index = indexOf(batch);
  const { status, body } = renderEnvelope(batch, index);
  const results = ids.map((_, i) => {
    const id = itemId(index, i);
    const own = id === undefined ? {} : { id };
    return { index: i, ...own, status: 'queued', raw_event_id: rawEventId(batch.id, i) };
  });
  const expected = { status: 'queued', accepted: ids.length, rejected: 0, results };
  return { status, body: body.toString(), expected: JSON.stringify(expected) };
}

t.test('the results of accepted items have their ids, however they are spelled', async (t) => {
  fc.assert(
    fc.property(fc.array(IDS, { minLength: 1, maxLength: 20 }), (ids) => {
      const { status, body, expected } = answered(ids);
      t.equal(status, 202);
      t.equal(body, expected);
    }),
  );
});

t.test('an answer may be of any length', async (t) => {
  for (const [count, length] of [
    [1, 1],
    [10, 30],
    [11, 30],
    [1000, 36],
    [1000, 256],
    [101, 256],
    [640, 256],
  ] as const) {
    const { body, expected } = answered(
      Array.from({ length: count }, () => `"${'x'.repeat(length)}"`),
    );
    t.equal(body, expected, `${count} ids of ${length} bytes`);
  }
});
