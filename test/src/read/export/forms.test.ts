import { parquetReadObjects } from 'hyparquet';
import t from 'tap';
import { PAYLOAD_FIELDS } from '../../../../src/model/observation.ts';
import { columnsOf } from '../../../../src/read/export/columns.ts';
import { textCell } from '../../../../src/read/export/csv.ts';
import { observationMembers, traceMembers } from '../../../../src/store/observation-json.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { anObservation, aTrace } from '../../../helper/fake-traces.ts';
import { exporting } from './rig.ts';

/** The records of RFC 4180. */
function parseCsv(text: string): string[][] {
  const records: string[][] = [];
  let record: string[] = [];
  let at = 0;
  while (at < text.length) {
    let cell = '';
    if (text[at] === '"') {
      for (at++; text[at] !== '"' || text[at + 1] === '"'; at++) {
        if (text[at] === '"') at++;
        cell += text[at];
      }
      at++;
    } else {
      while (text[at] !== ',' && text[at] !== '\r') cell += text[at++];
    }
    record.push(cell);
    if (text[at] === ',') at++;
    else {
      if (text.slice(at, at + 2) !== '\r\n') throw new Error(`no end of a record at ${at}`);
      at += 2;
      records.push(record);
      record = [];
    }
  }
  return records;
}

const EVIL = [
  '=1+1',
  '+1',
  '-1',
  '@SUM(A1)',
  '\tx',
  '\r=1',
  '＝1',
  "'=1",
  'a,b',
  'a"b',
  'a\r\nb',
  '',
];

t.test('every member of a row is in a column', async (t) => {
  const members = (what: 'traces' | 'observations') =>
    new Set(columnsOf(what, true).map(({ member }) => member));
  t.same([...members('traces')].sort(), Object.keys(traceMembers(aTrace())).sort());
  const all = [...Object.keys(observationMembers(anObservation())), 'custom_fields'];
  t.same([...members('observations')].sort(), [...all, ...PAYLOAD_FIELDS].sort());
});

t.test('quotes cells that a spreadsheet would run, so that they can be read back', async (t) => {
  for (const text of EVIL) {
    const cell = textCell(text);
    const [[read = ''] = []] = parseCsv(`${cell}\r\n`);
    t.notMatch(read, /^[=+\-@\t\r＝＋－＠]/);
    t.equal(/^'+[=+\-@\t\r＝＋－＠]/.test(read) ? read.slice(1) : read, text);
  }
  t.equal(textCell('plain'), 'plain');
  t.equal(textCell("it's"), "it's");
  t.equal(textCell('=1+1'), `"'=1+1"`);
  t.equal(textCell("'plain"), "'plain");
});

t.test('exports CSV with a header, and a cell for every column', async (t) => {
  const traces = EVIL.map((name, i) => {
    const startTime = { ms: Date.UTC(2026, 0, 15), ns: 1 };
    return aTrace({ id: `t-${i}`, name, latencyMs: -1.5, startTime, models: ['a', 'b"'] });
  });
  const { get } = await exporting(t, { traces });
  const { text, type } = await get({ format: 'csv' });
  t.equal(type, 'text/csv; charset=utf-8; header=present');
  const [header = [], ...records] = parseCsv(text);
  t.same(
    header,
    columnsOf('traces', false).map(({ name }) => name),
  );
  t.equal(records.length, traces.length);
  const cell = (record: readonly string[], name: string) => record[header.indexOf(name)];
  for (const [i, record] of records.entries()) {
    t.equal(record.length, header.length);
    t.equal(cell(record, 'id'), `t-${i}`);
    t.equal(cell(record, 'latency_ms'), '-1.5');
    t.equal(cell(record, 'start_time'), '2026-01-15T00:00:00.000000001Z');
    t.equal(cell(record, 'models'), '["a","b\\""]');
    t.equal(cell(record, 'cost_total'), '0.005');
    t.equal(cell(record, 'input_tokens'), '3');
    t.equal(cell(record, 'user_id'), '');
  }
  const some = await get({ format: 'csv', fields: 'input_tokens,cost', limit: '1' });
  t.equal(some.text, 'id,input_tokens,cost_input,cost_output,cost_total\r\nt-0,3,,2e-9,0.005\r\n');
  t.equal((await get({ format: 'csv', q: '', after: '{"id":"t-11"}' })).rows, 0);
});

t.test('exports Parquet whose columns have types, in groups of rows', async (t) => {
  const batch = nativeBatch(1);
  const payload = { inputs: { batchId: batch.id, position: 0 } };
  const observations = Array.from({ length: 10_001 }, (_, i) =>
    anObservation({
      ...{ id: `o-${i}`, name: i % 2 === 0 ? 'chat' : null, payload: i === 0 ? payload : {} },
      startTime: { ms: Date.UTC(2026, 0, 15), ns: 123_456 },
      usage: { input_tokens: i, odd: 1 },
      details: { tags: i === 1 ? [] : ['a', 'b'], ttftMs: 0.5 },
    }),
  );
  const traces = [aTrace({ observationCount: observations.length })];
  const { get } = await exporting(t, { traces, observations, batches: [batch] });
  const answer = await get({ format: 'parquet', of: 'observations', payloads: 'true' });
  t.match(answer, { status: 200, type: 'application/vnd.apache.parquet', isComplete: true });
  t.equal(answer.rows, observations.length);
  const rows = await rowsIn(answer.bytes);
  t.equal(rows.length, observations.length);
  const [first, second] = rows;
  t.match(first, { id: 'o-0', name: 'chat', ended: true, ttft_ms: 0.5, tags: ['a', 'b'] });
  t.match(second, { id: 'o-1', name: null, tags: [], end_time: null, input_tokens: 1n });
  t.same(first?.start_time, new Date(Date.UTC(2026, 0, 15)));
  t.match(JSON.parse(String(first?.inputs)), { messages: [{ content: 'hello' }] });
  t.same(JSON.parse(String(first?.usage)), { input_tokens: 0, odd: 1 });
  t.equal(rows.at(-1)?.id, 'o-10000');
});

t.test('a column of integers in Parquet has those of 64 bits', async (t) => {
  const counts = [Number.MAX_SAFE_INTEGER, 2 ** 60, 2 ** 63 - 1024, 2 ** 63, 1.5];
  const traces = counts.map((input_tokens, i) => aTrace({ id: `t-${i}`, usage: { input_tokens } }));
  const { get } = await exporting(t, { traces });
  const { bytes } = await get({ format: 'parquet', fields: 'input_tokens' });
  t.same(
    (await rowsIn(bytes)).map(({ input_tokens: stored }) => stored),
    [2n ** 53n - 1n, 2n ** 60n, 2n ** 63n - 1024n, null, null],
  );
});

t.test('a part in Parquet is a whole file', async (t) => {
  const traces = Array.from({ length: 1_000 }, (_, i) => aTrace({ id: `t-${i}` }));
  const { get } = await exporting(t, { traces });
  const ids: unknown[] = [];
  let after: string | undefined;
  do {
    const { bytes, next } = await get({
      ...{ format: 'parquet', limit: '333', fields: 'name' },
      ...(after === undefined ? {} : { after }),
    });
    ids.push(...(await rowsIn(bytes)).map(({ id }) => id));
    after = next;
  } while (after !== undefined);
  t.same(
    ids,
    traces.map(({ id }) => id),
  );
  const none = await get({ format: 'parquet', after: '{"id":"t-999"}' });
  t.same([await rowsIn(none.bytes), none.rows], [[], 0]);
});

t.test('a part in Parquet ends with the rows that wait for the end of their group', async (t) => {
  const name = 'x'.repeat(1_000);
  const tags = ['y'.repeat(200), 'z'.repeat(200)];
  const traces = Array.from({ length: 3_000 }, (_, i) => aTrace({ id: `t-${i}`, name, tags }));
  const { get } = await exporting(t, { traces });
  for (const [fields, size] of [
    ['name', 1_000],
    ['tags', 400],
  ] as const) {
    const part = { format: 'parquet', fields, max_bytes: '400000' };
    const { rows, bytes, next } = await get(part);
    t.ok(rows > 350_000 / size && rows <= 400_000 / size, `${fields}: ${rows} rows`);
    t.equal((await rowsIn(bytes)).at(-1)?.id, `t-${rows - 1}`);
    const { bytes: rest } = await get({ ...part, after: next ?? '' });
    t.equal((await rowsIn(rest))[0]?.id, `t-${rows}`);
  }
});

async function rowsIn(bytes: Buffer): Promise<Record<string, unknown>[]> {
  const file = new Uint8Array(bytes).buffer;
  return parquetReadObjects({ file }) as Promise<Record<string, unknown>[]>;
}
