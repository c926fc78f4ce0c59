import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { config as fileConfig } from '../../../exporters/file/config.ts';
import { factory } from '../../../exporters/file/factory.ts';
import { cutTornWrite } from '../../../exporters/file/torn-write.ts';
import { createWriter } from '../../../exporters/file/writer.ts';
import { createProcessor } from '../../../processors/normalization/processor.ts';
import type { ObservationBatch } from '../../../src/model/batch.ts';
import {
  anObservation,
  nativeBatch,
  nativeEvent,
  observationBatch,
  otlpBatch,
  rawBatch,
} from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { testSettings } from '../../helper/settings.ts';

const NEVER = new AbortController().signal;

/** A started exporter with a file in this directory. */
async function writing(t: Test, directory: string, more: object = {}) {
  const clock = fakeClock();
  const settings = testSettings('exporter', 'file', { clock });
  const path = join(directory, 'traces.jsonl');
  const exporter = await factory.create(settings, fileConfig.parse({ path, ...more }));
  t.teardown(() => exporter.shutdown(NEVER));
  await exporter.start();
  return { exporter, path, clock, settings };
}

function linesOf(text: string): Record<string, unknown>[] {
  t.ok(text === '' || text.endsWith('\n'), 'the file ends with a line');
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

/** A batch whose one line has about this many bytes. */
function sized(bytes: number): ObservationBatch {
  const text = 'x'.repeat(bytes);
  return observationBatch(nativeBatch([nativeEvent({ inputs: text, outputs: null })]), {
    payloadMask: 1,
  });
}

t.test('writes an append that comes in the turn in which the previous write ends', async (t) => {
  const path = join(t.testdir(), 'a.jsonl');
  const settings = testSettings('exporter', 'file', { clock: fakeClock() });
  const writer = createWriter(settings, fileConfig.parse({ path }));
  await writer.open();
  await writer.append(Buffer.from('a\n')).then(() => writer.append(Buffer.from('b\n')));
  await writer.close();
  t.equal(readFileSync(path, 'utf8'), 'a\nb\n');
});

t.test('has a batch in the file when consume resolves', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const source = nativeBatch([
    nativeEvent({ id: 'a', inputs: { n: 12345678901234567890n.toString() } }),
    nativeEvent({ id: 'b' }),
  ]);
  await exporter.consume(observationBatch(source));
  const [first, second] = linesOf(readFileSync(path, 'utf8'));
  t.match(first, {
    raw_event_id: `raw_${source.id}_0`,
    operation: 'finish',
    id: 'observation-1',
    trace_id: 'trace-1',
    project_id: 'proj_test',
    source: 'native',
    start_time: '2026-01-15T11:59:58',
    inputs: { n: '12345678901234567890' },
    custom_fields: { team: 'search' },
  });
  t.equal(second?.raw_event_id, `raw_${source.id}_1`);
  t.equal(statSync(path).mode & 0o777, 0o600);
});

t.test('keeps the spelling of numbers', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const source = nativeBatch(1);
  const body = source.body
    .toString()
    .replace('{"content":"hi"}', '{"n":1.50e2,"big":9007199254740993}');
  await exporter.consume(observationBatch({ ...source, body: Buffer.from(body) }));
  t.match(readFileSync(path, 'utf8'), '"outputs":{"n":1.50e2,"big":9007199254740993}');
});

t.test('writes a null trace for an event without a trace', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  await exporter.consume(observationBatch(nativeBatch(1), { traceId: null }));
  t.equal(linesOf(readFileSync(path, 'utf8'))[0]?.trace_id, null);
});

t.test('the format json accepts observations only', async (t) => {
  const accepted = (config: object) => factory.data.acceptsAs?.(factory.config.parse(config));
  t.same(accepted({ path: '/x', format: 'json' }), ['observations']);
  t.same(accepted({ path: '/x', format: 'otlp_json' }), ['observations', 'raw']);
  t.same(accepted({ path: '/x' }), ['observations', 'raw']);
});

t.test('writes a raw batch as a line of the Collector', async (t) => {
  const spans = [
    { spanId: '0102030405060708', name: 'a', attributes: { k: 'v' }, statusCode: 2 as const },
    { spanId: '0102030405060709', parentSpanId: '0102030405060708', name: 'b' },
  ];
  const { exporter, path } = await writing(t, t.testdir());
  await exporter.consume(otlpBatch(spans));
  await exporter.consume(otlpBatch(spans, { format: 'otlp_json', encoding: 'gzip' }));
  const [proto, json] = linesOf(readFileSync(path, 'utf8'));
  const expected = {
    resourceSpans: [
      {
        resource: { attributes: [{ key: 'service.name', value: { stringValue: 'test' } }] },
        scopeSpans: [
          {
            scope: { name: 'test-scope', version: '1.0.0' },
            spans: [
              {
                spanId: '0102030405060708',
                name: 'a',
                kind: 1,
                startTimeUnixNano: /^\d{19}$/,
                attributes: [{ key: 'k', value: { stringValue: 'v' } }],
                status: { code: 2 },
              },
              { spanId: '0102030405060709', parentSpanId: '0102030405060708', name: 'b' },
            ],
          },
        ],
      },
    ],
  };
  t.match(proto, expected);
  t.match(json, expected);
});

t.test('keeps an OTLP/JSON body unchanged, on one line', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const sent = otlpBatch(1, { format: 'otlp_json' });
  const pretty = JSON.stringify(JSON.parse(sent.body.toString()), null, 2);
  const spelled = pretty.replace('"kind": 1', '"kind": 1.0');
  const compact = sent.body.toString().replace('"kind":1', '"kind":1.0');
  for (const body of [compact, spelled]) {
    await exporter.consume(rawBatch('otlp_json', Buffer.from(body), 1));
  }
  const [first = '', second = ''] = readFileSync(path, 'utf8').split('\n');
  t.equal(first, compact);
  t.match(second, /^\{"resourceSpans":/);
  t.same(JSON.parse(second), JSON.parse(first));
});

t.test('writes native events and observations as spans with format: otlp_json', async (t) => {
  const { exporter, path } = await writing(t, t.testdir(), { format: 'otlp_json' });
  const source = nativeBatch([nativeEvent({ id: 'x', name: 'call' })]);
  await exporter.consume(source);
  await exporter.consume(observationBatch(source, { id: 'x', name: 'call' }));
  const otlp = otlpBatch([{ spanId: '0102030405060708', name: 'first' }, { name: 'second' }]);
  await exporter.consume({
    kind: 'observations',
    source: otlp,
    observations: [anObservation({ index: 1 })],
  });
  const names = linesOf(readFileSync(path, 'utf8')).map((line) => JSON.stringify(line));
  t.match(names[0], /"name":"call"/);
  t.match(names[1], /"name":"call"/);
  t.match(names[2], /"name":"second"/);
  t.notMatch(names[2], /"name":"first"/, 'the span without an observation');
});

t.test('renders a large OTLP batch in a thread, as one line', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const attributes = { text: 'x'.repeat(2_000) };
  const spans = Array.from({ length: 500 }, (_, i) => ({
    spanId: (i + 1).toString(16).padStart(16, '0'),
    attributes,
  }));
  await exporter.consume(otlpBatch(spans));
  const [line] = linesOf(readFileSync(path, 'utf8')) as { resourceSpans: unknown[] }[];
  t.match(line, { resourceSpans: [{ scopeSpans: [{ spans: { length: 500 } }] }] });
});

t.test('removes half a line of OTLP at the next start', async (t) => {
  const directory = t.testdir();
  const first = await writing(t, directory);
  await first.exporter.consume(otlpBatch(1));
  await first.exporter.shutdown(NEVER);
  appendFileSync(first.path, '{"resourceSp');
  const { exporter, path } = await writing(t, directory);
  await exporter.consume(otlpBatch(1));
  t.equal(linesOf(readFileSync(path, 'utf8')).length, 2);
});

t.test('writes concurrent batches whole and in order', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const batches = Array.from({ length: 40 }, (_, i) => sized(100 + i * 1000));
  await Promise.all(batches.map((batch) => exporter.consume(batch)));
  t.same(
    linesOf(readFileSync(path, 'utf8')).map(({ raw_event_id }) => raw_event_id),
    batches.map(({ source }) => `raw_${source.id}_0`),
  );
});

t.test('renames the file exactly before it would exceed max_megabytes', async (t) => {
  const directory = t.testdir();
  const probe = await writing(t, join(directory, 'probe'));
  await probe.exporter.consume(sized(1000));
  const line = statSync(probe.path).size;

  const limit = { max_megabytes: (line * 3) / 1_048_576 };
  const { exporter, path, clock } = await writing(t, join(directory, 'real'), { rotation: limit });
  for (let i = 0; i < 3; i++) await exporter.consume(sized(1000));
  t.equal(statSync(path).size, line * 3, 'full to the last byte');
  t.same(readdirSync(join(directory, 'real')), ['traces.jsonl']);
  await exporter.consume(sized(1000));
  t.equal(statSync(path).size, line);
  t.same(readdirSync(join(directory, 'real')), [
    'traces-2026-01-15T12-00-00.000Z.jsonl',
    'traces.jsonl',
  ]);
  for (let i = 0; i < 3; i++) await exporter.consume(sized(1000));
  t.ok(
    readdirSync(join(directory, 'real')).includes('traces-2026-01-15T12-00-00.000Z.0001.jsonl'),
    'a second rotation in the same millisecond replaces no file',
  );
  await exporter.consume(sized(10_000));
  t.ok(statSync(path).size > line * 3, 'a batch above the limit has a file of its own');
  clock.advance(1000);
  await Promise.all([1, 2, 3, 4, 5, 6].map(() => exporter.consume(sized(1000))));
  for (const name of readdirSync(join(directory, 'real'))) {
    const { size } = statSync(join(directory, 'real', name));
    t.ok(size <= line * 3 || size > 10_000, `${name} has ${size} bytes`);
  }
});

t.test('writes a batch above max_megabytes into the empty file, and renames none', async (t) => {
  const limit = { max_megabytes: 1000 / 1_048_576 };
  const { exporter, path } = await writing(t, t.testdir(), { rotation: limit });
  await exporter.consume(sized(2000));
  t.same(readdirSync(dirname(path)), ['traces.jsonl']);
});

t.test('deletes renamed files that are too many or too old, and no other files', async (t) => {
  const directory = t.testdir({
    'traces-2026-01-01T00-00-00.000Z.jsonl': '{}\n',
    'traces-2026-01-02T00-00-00.000Z.jsonl': {},
    'traces-2026-01-14T00-00-00.000Z.jsonl': '{}\n',
    'traces-of-mine.jsonl': 'kept',
    'traces-2026-01-01T00-00-00.000Z.txt': 'kept',
  });
  const rotation = { max_megabytes: 0.002, max_days: 7, max_backups: 2 };
  const { exporter, clock } = await writing(t, directory, { rotation });
  for (let i = 0; i < 4; i++) {
    clock.advance(1000);
    await exporter.consume(sized(1500));
  }
  t.same(readdirSync(directory).sort(), [
    'traces-2026-01-01T00-00-00.000Z.txt',
    'traces-2026-01-02T00-00-00.000Z.jsonl',
    'traces-2026-01-15T12-00-03.000Z.jsonl',
    'traces-2026-01-15T12-00-04.000Z.jsonl',
    'traces-of-mine.jsonl',
    'traces.jsonl',
  ]);
});

t.test('keeps every renamed file with max_backups: 0 and max_days: 0', async (t) => {
  const directory = t.testdir({ 'traces-2020-01-01T00-00-00.000Z.jsonl': '{}\n' });
  const rotation = { max_megabytes: 0.002, max_days: 0, max_backups: 0 };
  const { exporter, clock } = await writing(t, directory, { rotation });
  for (let i = 0; i < 4; i++) {
    clock.advance(1000);
    await exporter.consume(sized(1500));
  }
  t.equal(readdirSync(directory).length, 5);
});

t.test('keeps a compressed file readable after every write and after a crash', async (t) => {
  const directory = t.testdir();
  const path = join(directory, 'traces.jsonl');
  {
    const { exporter } = await writing(t, directory, { compression: 'zstd' });
    await exporter.consume(sized(200_000));
    t.equal(linesOf(zstdDecompressSync(readFileSync(path)).toString()).length, 1);
    await exporter.consume(sized(100));
    await exporter.shutdown(NEVER);
  }
  const whole = readFileSync(path);
  t.equal(linesOf(zstdDecompressSync(whole).toString()).length, 2);
  const frame = zstdCompressSync(Buffer.from(JSON.stringify({ torn: 'y'.repeat(300_000) })));
  for (const cut of [1, 4, 5, 8, frame.length - 1]) {
    writeFileSync(path, Buffer.concat([whole, frame.subarray(0, cut)]));
    const { exporter, settings } = await writing(t, directory, { compression: 'zstd' });
    t.match(settings.logger.lines, [{ fields: { bytes: cut } }]);
    await exporter.shutdown(NEVER);
    t.ok(readFileSync(path).equals(whole), `${cut} bytes of a torn frame are cut off`);
  }
});

for (const checksumFlag of [0, 1]) {
  t.test(`starts on whole frames, ${checksumFlag ? 'with' : 'without'} checksums`, async (t) => {
    const params = { [constants.ZSTD_c_checksumFlag]: checksumFlag };
    const frame = zstdCompressSync(Buffer.from('{"raw_event_id":"1"}\n'), { params });
    const whole = Buffer.concat([frame, frame]);
    for (const cut of [0, 1, 3]) {
      const directory = t.testdir({ 'traces.jsonl': whole.subarray(0, whole.length - cut) });
      const { path, exporter } = await writing(t, directory, { compression: 'zstd' });
      await exporter.shutdown(NEVER);
      t.ok(readFileSync(path).equals(cut === 0 ? whole : frame), `${cut} bytes are missing`);
    }
  });
}

t.test(
  'finds the end of many small frames with few reads, and of a checked file with one',
  async (t) => {
    const path = join(t.testdir(), 'traces.jsonl');
    const frame = zstdCompressSync(Buffer.from('{"raw_event_id":"1"}\n'));
    const whole = Buffer.concat(Array.from({ length: 10_000 }, () => frame));
    writeFileSync(path, Buffer.concat([whole, frame.subarray(0, 7)]));
    const { logger } = testSettings('exporter', 'file');
    const config = fileConfig.parse({ path, compression: 'zstd' });
    const file = await open(path, 'r+');
    t.teardown(() => file.close());
    let reads = 0;
    const counting = new Proxy(file, {
      get(target, name) {
        if (name === 'read') reads++;
        const member = Reflect.get(target, name);
        return typeof member === 'function' ? member.bind(target) : member;
      },
    });
    const checked = await cutTornWrite(counting, config, logger);
    t.equal(checked.end, whole.length);
    t.ok(reads < 2 * Math.ceil(whole.length / 65_536) + 2, `${reads} reads`);
    appendFileSync(path, frame.subarray(0, 7));
    reads = 0;
    t.same(await cutTornWrite(counting, config, logger, checked), checked);
    t.ok(reads <= 4, `${reads} reads behind the checked part`);
    t.equal(statSync(path).size, whole.length);
  },
);

t.test('removes half a line at the start', async (t) => {
  for (const [before, after] of [
    ['{"a":1}\n{"raw_event_id":"raw_', '{"a":1}\n'],
    ['{"a":1}\n{"raw', '{"a":1}\n'],
    ['{"a":1}\n\0\0\0', '{"a":1}\n'],
    ['{"raw_ev', ''],
    ['{"a":1}\n', '{"a":1}\n'],
  ] as const) {
    const directory = t.testdir({ 'traces.jsonl': before });
    const { exporter, path } = await writing(t, directory);
    t.equal(readFileSync(path, 'utf8'), after);
    await exporter.shutdown(NEVER);
  }
});

t.test('refuses to start on a file with other content', async (t) => {
  const directory = t.testdir({ notes: 'dear diary\n', elsewhere: '{}\n', one: '{"a":1}' });
  symlinkSync(join(directory, 'elsewhere'), join(directory, 'link'));
  execFileSync('mkfifo', [join(directory, 'pipe')]);
  mkdirSync(join(directory, 'folder'));
  const start = async (name: string, more: object = {}) => {
    const config = fileConfig.parse({ path: join(directory, name), ...more });
    const exporter = await factory.create(testSettings('exporter', 'file'), config);
    try {
      await exporter.start();
    } finally {
      await exporter.shutdown(NEVER);
    }
  };
  await t.rejects(start('notes'), /does not hold JSON lines/);
  await t.rejects(start('elsewhere', { compression: 'zstd' }), /does not hold zstd frames/);
  await t.rejects(start('one'), /does not hold JSON lines/);
  await t.rejects(start('link'), { code: 'ELOOP' });
  await t.rejects(start('pipe'), /is not a regular file\. Remove it, or set another path\.$/);
  await t.rejects(start('folder'), { code: 'EISDIR' });
  await t.rejects(start('no/such/folder/file', { create_directory: false }), { code: 'ENOENT' });
  t.equal(readFileSync(join(directory, 'notes'), 'utf8'), 'dear diary\n');
});

t.test('opens a new file after the file was moved', async (t) => {
  const directory = t.testdir();
  const { exporter, path } = await writing(t, directory);
  await exporter.consume(sized(10));
  renameSync(path, `${path}.1`);
  await exporter.consume(sized(20));
  t.equal(linesOf(readFileSync(path, 'utf8')).length, 1);
  appendFileSync(`${path}.1`, '');
  t.equal(linesOf(readFileSync(`${path}.1`, 'utf8')).length, 1);
});

t.test('rejects a failed write with RetryableError, and leaves no partial line', async (t) => {
  const directory = t.testdir();
  const { exporter, path } = await writing(t, directory, { create_directory: false });
  await exporter.consume(sized(10));
  const moved = `${directory}-moved`;
  renameSync(directory, moved);
  t.teardown(() => execFileSync('rm', ['-rf', moved]));
  await t.rejects(exporter.consume(sized(10)), {
    name: 'RetryableError',
    code: 'file_unwritable',
  });
  renameSync(moved, directory);
  await exporter.consume(sized(10));
  t.equal(linesOf(readFileSync(path, 'utf8')).length, 2);
});

t.test('on a full disk, refuses batches and keeps the file whole', async (t) => {
  const directory = t.testdir();
  const script = `
    import { factory } from '${join(process.cwd(), 'exporters/file/factory.ts')}';
    import { config as fileConfig } from '${join(process.cwd(), 'exporters/file/config.ts')}';
    import { testSettings } from '${join(process.cwd(), 'test/helper/settings.ts')}';
    import { nativeBatch, nativeEvent, observationBatch } from '${join(process.cwd(), 'test/helper/batches.ts')}';
    import { readFileSync } from 'node:fs';
    process.on('SIGXFSZ', () => {});
    const path = '${join(directory, 'traces.jsonl')}';
    const exporter = await factory.create(testSettings('exporter', 'file'), fileConfig.parse({ path }));
    await exporter.start();
    const batch = () => observationBatch(nativeBatch([nativeEvent({ inputs: 'x'.repeat(40000) })]), { payloadMask: 1 });
    const outcomes = [];
    for (let i = 0; i < 4; i++) {
      outcomes.push(await exporter.consume(batch()).then(() => 'written', (error) => error.name));
    }
    const lines = readFileSync(path, 'utf8').split('\\n');
    outcomes.push(lines.length - 1, lines.at(-1));
    console.log(JSON.stringify(outcomes));
  `;
  writeFileSync(join(directory, 'script.ts'), script);
  // A limit on the size of files cuts the last write short, as a full disk does.
  const output = execFileSync(
    'bash',
    ['-c', `ulimit -f 100; exec "${process.execPath}" "${join(directory, 'script.ts')}"`],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  );
  t.same(JSON.parse(output), ['written', 'written', 'RetryableError', 'RetryableError', 2, '']);
});

t.test('a failed write cuts off nothing that another program appended', async (t) => {
  const path = join(t.testdir(), 'traces.jsonl');
  const script = `
    import { appendFileSync, readFileSync } from 'node:fs';
    import { cutTornWrite } from '../../../exporters/file/torn-write.ts';
import { createWriter } from '${join(process.cwd(), 'exporters/file/writer.ts')}';
    import { config as fileConfig } from '${join(process.cwd(), 'exporters/file/config.ts')}';
    import { testSettings } from '${join(process.cwd(), 'test/helper/settings.ts')}';
    process.on('SIGXFSZ', () => {});
    const path = '${path}';
    const writer = createWriter(testSettings('exporter', 'file'), fileConfig.parse({ path }));
    await writer.open();
    await writer.append(Buffer.from('{"raw_event_id":"1"}\\n'));
    appendFileSync(path, '{"raw_event_id":"2"}\\n');
    const large = Buffer.from('{"raw_event_id":"' + 'x'.repeat(200000) + '"}\\n');
    const outcome = await writer.append(large).then(() => 'written', (error) => error.name);
    console.log(JSON.stringify([outcome, ...readFileSync(path, 'utf8').split('\\n')]));
  `;
  writeFileSync(`${path}.ts`, script);
  const output = execFileSync(
    'bash',
    ['-c', `ulimit -f 100; exec "${process.execPath}" "${path}.ts"`],
    { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
  );
  const lines = ['{"raw_event_id":"1"}', '{"raw_event_id":"2"}', ''];
  t.same(JSON.parse(output), ['RetryableError', ...lines]);
});

t.test(
  'writes on after a failed write in a compressed file that another program had cut',
  async (t) => {
    const path = join(t.testdir(), 'traces.jsonl');
    const script = `
    import { randomBytes } from 'node:crypto';
    import { truncateSync } from 'node:fs';
    import { createWriter } from '${join(process.cwd(), 'exporters/file/writer.ts')}';
    import { config as fileConfig } from '${join(process.cwd(), 'exporters/file/config.ts')}';
    import { testSettings } from '${join(process.cwd(), 'test/helper/settings.ts')}';
    process.on('SIGXFSZ', () => {});
    const path = '${path}';
    const config = fileConfig.parse({ path, compression: 'zstd' });
    const writer = createWriter(testSettings('exporter', 'file'), config);
    await writer.open();
    await writer.append(randomBytes(50000));
    truncateSync(path, 0);
    await writer.append(randomBytes(80000));
    const append = (bytes) => writer.append(randomBytes(bytes)).then(() => 'written', (error) => error.message);
    console.log(JSON.stringify([await append(90000), await append(10)]));
  `;
    writeFileSync(`${path}.ts`, script);
    const output = execFileSync(
      'bash',
      ['-c', `ulimit -f 100; exec "${process.execPath}" "${path}.ts"`],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
    );
    t.match(JSON.parse(output), [/EFBIG/, 'written']);
  },
);

t.test('refuses a file that another exporter writes, until that one is shut down', async (t) => {
  const directory = t.testdir();
  const { exporter, path } = await writing(t, directory);
  symlinkSync(directory, join(directory, 'link'));
  const again = { path: join(directory, 'link', 'traces.jsonl') };
  const other = await factory.create(testSettings('exporter', 'file'), fileConfig.parse(again));
  t.teardown(() => other.shutdown(NEVER));
  await t.rejects(
    other.start(),
    /another exporter writes .*: give each exporter a path of its own/,
  );
  await other.shutdown(NEVER);
  await t.rejects(other.start(), /another exporter writes/, 'the claim is that of the first');
  await exporter.consume(sized(10));
  await exporter.shutdown(NEVER);
  await other.start();
  await other.consume(sized(10));
  t.equal(linesOf(readFileSync(path, 'utf8')).length, 2);
});

t.test('refuses batches after the shutdown', async (t) => {
  const { exporter } = await writing(t, t.testdir());
  const underWay = exporter.consume(sized(10));
  await underWay;
  await exporter.shutdown(NEVER);
  await exporter.shutdown(NEVER);
  await t.rejects(exporter.consume(sized(10)), { name: 'RetryableError', code: 'shutting_down' });
});

t.test(
  'writes the custom fields of large native batches as attributes of their spans',
  async (t) => {
    const { exporter, path } = await writing(t, t.testdir(), { format: 'otlp_json' });
    const processor = createProcessor(testSettings('processor', 'normalization'));
    t.teardown(() => processor.shutdown(NEVER));
    const event = nativeEvent({
      inputs: 'x'.repeat(1_048_576),
      custom_fields: { team: 'search' },
    });
    await exporter.consume(await processor.process(nativeBatch([event])));
    const [line] = linesOf(readFileSync(path, 'utf8'));
    t.match(JSON.stringify(line), /"key":"custom_fields.team","value":\{"stringValue":"search"\}/);
  },
);

t.test('writes an observation on one line, whatever white space its payload has', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const inputs = { text: 'a\nb  c\u2028', list: [1, { deep: '\r\n' }] };
  const spelled = JSON.stringify(inputs, null, '\r\n  ').replace('1', '1.50e1');
  const source = nativeBatch([nativeEvent({ inputs: 'PLACE', outputs: null })]);
  const body = Buffer.from(source.body.toString().replace('"PLACE"', spelled));
  await exporter.consume(observationBatch({ ...source, body }, { payloadMask: 1 }));
  const text = readFileSync(path, 'utf8');
  const [line] = linesOf(text);
  t.equal(text.split(/\r|\n/).length, 2);
  t.same(line?.inputs, { ...inputs, list: [15, { deep: '\r\n' }] });
  t.match(text, '1.50e1', 'the spelling of numbers');
});

t.test('renders large observations in a thread like small ones', async (t) => {
  const { exporter, path } = await writing(t, t.testdir());
  const source = nativeBatch([
    nativeEvent({ id: 'a', inputs: 'x'.repeat(2 * 1_048_576) }),
    nativeEvent({ id: 'b' }),
  ]);
  await exporter.consume(observationBatch(source, { payloadMask: 1 }));
  const [first, second] = linesOf(readFileSync(path, 'utf8'));
  t.equal(String(first?.inputs).length, 2 * 1_048_576);
  t.match(first, { raw_event_id: `raw_${source.id}_0`, custom_fields: { team: 'search' } });
  t.match(second, { raw_event_id: `raw_${source.id}_1`, source: 'native' });
});
