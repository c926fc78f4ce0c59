import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetReadObjects } from 'hyparquet';
import t from 'tap';
import { nativeEvent } from '../helper/batches.ts';
import { eventually } from './client.ts';
import { startDaemon } from './daemon.ts';

/** Exports over HTTP and by the command, with and without a running daemon, have the same rows. */

t.setTimeout(180_000);

const TRACES = 1_200;
const EVENTS = 10;

t.test('the command and the request export the same rows', async (t) => {
  const daemon = await startDaemon(t);
  for (let at = 0; at < TRACES; at += 100) {
    const events = Array.from({ length: 100 * EVENTS }, (_, i) =>
      nativeEvent({
        ...{ trace_id: `trace-${at + Math.floor(i / EVENTS)}`, observation_id: `o-${at}-${i}` },
        start_time: new Date(Date.UTC(2026, 0, 1) + at * 1000 + i).toISOString(),
      }),
    );
    const { status } = await daemon.call({
      ...{ method: 'POST', path: '/api/v1/observations/batch' },
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ events }),
    });
    t.equal(status, 202);
  }
  const get = async (query: string) =>
    (await daemon.call({ path: `/api/v1/export?${query}` })).body.toString();
  const count = (text: string): number => text.split('\n').length - 1;
  const whole = await eventually(
    () => get('of=observations'),
    (text) => count(text) === TRACES * EVENTS,
    'every row',
  );
  const payloads = await get('of=observations&payloads=true');
  t.equal(count(payloads), TRACES * EVENTS);
  t.match(payloads.slice(0, payloads.indexOf('\n')), '"content":"hello"');
  const exported = async (file: string, ...argv: readonly string[]): Promise<Buffer> => {
    const output = join(daemon.directory, file);
    const { code, stderr } = await daemon.cli('export', ...argv, '--output', output);
    t.equal(code, 0, stderr);
    return readFileSync(output);
  };
  const rows = ['--of', 'observations'];
  t.ok((await exported('rows.jsonl', ...rows)).toString() === whole, 'JSON lines');
  t.ok((await exported('all.jsonl', ...rows, '--payloads')).toString() === payloads, 'payloads');
  const csv = (await exported('traces.csv', '--format', 'csv')).toString();
  t.ok(csv === (await get('format=csv')), 'CSV');
  const parquet = await exported('rows.parquet', ...rows, '--format', 'parquet');
  const read = await parquetReadObjects({ file: new Uint8Array(parquet).buffer });
  t.equal(read.length, TRACES * EVENTS);
  await daemon.end('SIGTERM');
  t.ok((await exported('offline.jsonl', ...rows)).toString() === whole, 'without a daemon');
});
