import t from 'tap';
import type { JsonAnswer } from '../../../src/read/answer.ts';
import { writeTree } from '../../../src/read/tree.ts';
import type { TreePage } from '../../../src/store/store.ts';
import { aTenant } from '../../helper/batches.ts';
import { anObservation, aTrace, fakeTraces } from '../../helper/fake-traces.ts';
import { NO_DEADLINE, testReadsOwner } from '../../helper/http.ts';

const SIZE = 3500;

t.test('rows behind the kept texts are read again, and written once', async (t) => {
  const observations = Array.from({ length: SIZE }, (_, i) =>
    anObservation({
      id: `o-${i}`,
      name: `ä ${i}`,
      parentId: i === 0 ? null : `o-${Math.floor((i - 1) / 7)}`,
      usage: i % 3 === 0 ? { input_tokens: i } : null,
    }),
  );
  const traces = fakeTraces(() => 'proj_test', { observations });
  const written = async (keptBytes?: number) => {
    const reads = testReadsOwner();
    t.teardown(() => reads.close());
    const read = reads.begin(aTenant(), NO_DEADLINE);
    let fetched = 0;
    let text = '';
    const add = (part: string) => {
      text += part;
      return undefined;
    };
    const out: JsonAnswer = {
      add,
      addBytes: async (bytes) => add(bytes.toString()),
      end: add,
    };
    const source = {
      read,
      fetch: async (limit: number, cursor: string | undefined, hasText: boolean) => {
        const page = await traces.listTree?.('proj_test', 'trace-1', {
          ...{ limit, hasText },
          ...(cursor === undefined ? {} : { cursor }),
        });
        if (page === undefined) throw new Error('there are no traces');
        fetched += page.nodes.length;
        return page;
      },
    };
    await writeTree(out, aTrace(), source, keptBytes);
    read.end();
    t.equal(reads.heldBytes, 0);
    return { fetched, json: JSON.parse(text) as { observations: { id: string; name: string }[] } };
  };
  const whole = await written();
  t.equal(whole.fetched, SIZE, 'each row is read once');
  t.strictSame(
    whole.json.observations.map(({ id, name }) => [id, name]),
    observations.map(({ id, name }) => [id, name]),
  );
  const again = await written(1);
  t.equal(again.fetched, 2 * SIZE - 1000, 'the texts of one step are kept');
  t.strictSame(again.json, whole.json);
});

t.test(
  'the answer is JSON if the observations behind a page are erased before it is read',
  async (t) => {
    const blank = '\0'.repeat(5);
    const row = `{"id":"a","counted":${blank},"cost_counted":${blank},"cycle":${blank}}`;
    const node = {
      ...{ id: 'a', parentId: null, start: null, end: null, model: null, scope: null },
      ...{ responseId: null, usage: null, cost: null },
    };
    const first = (): TreePage => ({
      nodes: [node],
      text: Buffer.from(row),
      nextCursor: 'behind a',
    });
    const empty: TreePage = { nodes: [], text: Buffer.alloc(0), nextCursor: null };
    for (const keptBytes of [undefined, 1]) {
      let text = '';
      const add = (part: string) => {
        text += part;
        return undefined;
      };
      const out: JsonAnswer = { add, addBytes: async (bytes) => add(bytes.toString()), end: add };
      const reads = testReadsOwner();
      t.teardown(() => reads.close());
      const read = reads.begin(aTenant(), NO_DEADLINE);
      const fetch = async (_limit: number, cursor: string | undefined) =>
        cursor === undefined ? first() : empty;
      await writeTree(out, aTrace(), { read, fetch }, keptBytes);
      read.end();
      t.match(JSON.parse(text), { observations: [{ id: 'a' }] });
    }
  },
);
