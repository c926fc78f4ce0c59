import { createHash } from 'node:crypto';
import t from 'tap';
import { SEPARATOR } from '../../../extensions/postgres/traces/columns.ts';
import { anObservation, aTenant } from '../../helper/batches.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { batchWith, traceDatabase } from '../../helper/trace-database.ts';

const server = await postgresDatabases(t);
const P = aTenant().projectId;

/** An id that is longer than a key, and whose hash has the separator of cells. */
function unluckyId(): string {
  for (let i = 0; ; i++) {
    const id = `run/${'x'.repeat(70)}/${i}`;
    if (createHash('sha256').update(id).digest().includes(SEPARATOR)) return id;
  }
}

t.test('a hashed key with the separator of cells in it is read in trees and exports', async (t) => {
  const { traces } = await traceDatabase(t, await server.database());
  const id = unluckyId();
  const model = { model: 'gpt-4o', usage: { input_tokens: 3, output_tokens: 4 } };
  const list = [anObservation({ id, ...model }), anObservation({ id: 'short', ...model })];
  await traces.write(batchWith(list));
  const { nodes } = await traces.listTree(P, 'trace-1', { limit: 10, hasText: true });
  t.same(nodes.map((node) => node.id).toSorted(), [id, 'short']);
  const page = await traces.listLinesOf?.(P, ['trace-1'], { limit: 10 });
  const lines = Buffer.from(page?.text ?? [])
    .toString()
    .trim()
    .split('\n');
  const [first] = lines.map((line) => JSON.parse(line));
  t.match(first, { id, model: 'gpt-4o', name: 'chat' });
});
