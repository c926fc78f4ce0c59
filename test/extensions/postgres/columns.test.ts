import fc from 'fast-check';
import pg from 'pg';
import t from 'tap';
import type { Column } from '../../../extensions/postgres/traces/columns.ts';
import {
  columnParameters,
  namesOf,
  SEPARATOR,
  unnest,
} from '../../../extensions/postgres/traces/columns.ts';
import { KEY_TEXT } from '../../../extensions/postgres/traces/packed-rows.ts';
import {
  bytesOfKey,
  escapeText,
  keyOfBytes,
  keyOfEscaped,
  keyParameter,
  textOrNull,
} from '../../../extensions/postgres/traces/text.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

type Item = { readonly key: string; readonly text: string | null; readonly n: number | null };

const COLUMNS: readonly Column<Item>[] = [
  { name: 'key', type: 'bytea', of: ({ key }) => keyParameter(key) },
  { name: 'text', type: 'text', of: ({ text }) => text && escapeText(text) },
  { name: 'n', type: 'bigint', of: ({ n }) => n },
];

const server = await postgresDatabases(t);

t.test('reads the rows of column parameters back as they were written', async (t) => {
  const client = new pg.Client({ connectionString: await server.database() });
  await client.connect();
  t.teardown(() => client.end());
  const readBack = async (items: readonly Item[]): Promise<Item[]> => {
    const { rows } = await client.query(
      `SELECT * FROM ${unnest(COLUMNS, 1)} AS g (${namesOf(COLUMNS)})`,
      columnParameters(COLUMNS, items),
    );
    return rows.map(({ key, text, n }) => ({
      key: String(textOrNull(key.toString())),
      text: textOrNull(text),
      n: n === null ? null : Number(n),
    }));
  };
  const item = (key: string, text: string | null, n: number | null): Item => ({ key, text, n });
  const lists: Record<string, Item[]> = {
    'no row': [],
    'one empty text': [item('a', '', 1)],
    'several empty texts': [item('a', '', 1), item('b', '', 2)],
    'a column of nulls': [item('a', null, null), item('b', null, null)],
    'nulls between values': [item('a', null, 1), item('b', 'b', null), item('c', '', 0)],
    'texts like separators and nulls': [
      item('NULL', '\u0001\u0005', 1),
      item('null', '\u0001\u0006', 2),
      item('a,b', 'NULL', 3),
      item('{"}', '{}', Number.MAX_SAFE_INTEGER),
    ],
    'texts that Postgres rejects': [item('\0', 'a\0b', 1), item('\ud800', '\udfff', -1)],
  };
  for (const [name, items] of Object.entries(lists)) t.same(await readBack(items), items, name);
});

t.test('a key that Postgres has escaped is the key', async (t) => {
  const client = new pg.Client({ connectionString: await server.database() });
  await client.connect();
  t.teardown(() => client.end());
  const anyHash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((hash) => Buffer.from(hash));
  const hashed = fc.oneof(anyHash, fc.constant(Buffer.from(SEPARATOR.repeat(16))));
  const strange = fc.constantFrom(
    '\\',
    '\\377',
    '\\\\',
    ':a\\',
    'é',
    '\0',
    '\ud800',
    '\u0001\u0005',
    '',
  );
  const keys = fc.array(fc.oneof(fc.string({ unit: 'binary' }), strange, hashed));
  await fc.assert(
    fc.asyncProperty(keys, async (given) => {
      const { rows } = await client.query(
        `SELECT ${KEY_TEXT} AS escaped FROM unnest($1::bytea[]) WITH ORDINALITY AS o(key, n) ORDER BY n`,
        [given.map(bytesOfKey)],
      );
      t.notOk(
        rows.some(({ escaped }) => escaped.includes(SEPARATOR)),
        'no key has the separator of cells',
      );
      t.same(
        rows.map(({ escaped }) => keyOfEscaped(escaped)),
        given.map((key) => keyOfBytes(bytesOfKey(key))),
      );
    }),
  );
});
