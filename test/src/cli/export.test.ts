import { createHash } from 'node:crypto';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetReadObjects } from 'hyparquet';
import type { Test } from 'tap';
import t from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import type { Terminal } from '../../../src/cli/terminal.ts';
import { ControlError } from '../../../src/control/protocol.ts';
import { startControlServer } from '../../../src/control/server.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { fill, smallDisk } from '../../helper/small-disk.ts';

t.setTimeout(90_000);

const ROWS = 20;
const PART_ROWS = 3;

type Part = (query: URLSearchParams, number: number) => void;

/** The command over a control socket with rows t-0 to t-19, of which a part has three. `onPart` may throw. */
async function exporting(t: Test, onPart: Part = () => {}) {
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-export-'));
  t.teardown(() => rmSync(cwd, { recursive: true, force: true }));
  await runCli(['init'], { cwd, env: {}, out() {}, err() {} });
  mkdirSync(join(cwd, 'data'));
  let parts = 0;
  const server = await startControlServer(
    join(cwd, 'data'),
    async ({ command, arguments: { query } }) => {
      t.equal(command, 'export.part');
      const asked = new URLSearchParams(String(query));
      onPart(asked, ++parts);
      const first = Number(asked.get('after') ?? 0);
      const end = Math.min(ROWS, first + PART_ROWS);
      const next = end === ROWS ? null : String(end);
      return { project: 'proj_1', text: rowsOf(asked, first, end), rows: end - first, next };
    },
    recordingLogger(),
  );
  t.teardown(() => server.close());
  async function run(argv: readonly string[], more: Partial<Terminal> = {}) {
    const out: string[] = [];
    const err: string[] = [];
    const base = { cwd, env: {}, out: (text: string) => out.push(text) };
    const data = `--set=extensions.sqlite.directory=${join(cwd, 'data')}`;
    const terminal = { ...base, ...more, err: (text: string) => err.push(text) };
    return { status: await runCli(['export', ...argv, data], terminal), out, err };
  }
  const read = (name: string) => readFileSync(join(cwd, name), 'utf8');
  return { run, read, cwd, parts: () => parts };
}

function rowsOf(asked: URLSearchParams, first: number, end: number): string {
  const ids = Array.from({ length: end - first }, (_, i) => `t-${first + i}`);
  if (asked.get('format') === 'csv') return `id\r\n${ids.map((id) => `${id}\r\n`).join('')}`;
  return ids
    .map((id) => `${JSON.stringify({ id, name: `ü\u2028${id}`, inputs: '[1.0]' })}\n`)
    .join('');
}

const ALL = rowsOf(new URLSearchParams(), 0, ROWS);

t.test('writes every part to one file, with a manifest', async (t) => {
  const { run, read, cwd } = await exporting(t);
  const argv = ['status:error', '--from', '2026-01-01T00:00:00Z', '--output', 'out.jsonl'];
  const { status, out, err } = await run([...argv, '--json']);
  t.same([status, err], [0, []]);
  t.equal(read('out.jsonl'), ALL);
  const manifest = JSON.parse(read('out.jsonl.manifest.json'));
  t.same(JSON.parse(out.join('')), manifest);
  t.match(manifest, {
    ...{ file: 'out.jsonl', complete: true, rows: ROWS, bytes: Buffer.byteLength(ALL) },
    sha256: createHash('sha256').update(ALL).digest('hex'),
    ...{ project: 'proj_1', query: 'status:error', format: 'jsonl', of: 'traces' },
    ...{ payloads: false, from: '2026-01-01T00:00:00Z', to: null },
  });
  t.same(
    readdirSync(cwd).filter((name) => name.startsWith('out')),
    ['out.jsonl', 'out.jsonl.manifest.json'],
  );
  const again = await run(argv);
  t.equal(again.status, 64);
  t.match(again.err.join(), 'exists');
});

type Write = (
  this: FileHandle,
  bytes: Buffer,
  offset?: number,
  length?: number,
  position?: number,
) => Promise<{ bytesWritten: number }>;

t.test('writes the rest of a part of which one write took only some bytes', async (t) => {
  const { run, read, cwd } = await exporting(t);
  const any = await open(join(cwd, 'any'), 'w');
  const handles = Object.getPrototypeOf(any) as FileHandle;
  await any.close();
  const write: Write = handles.write;
  t.teardown(() => Object.assign(handles, { write }));
  Object.assign(handles, {
    write(this: FileHandle, ...[bytes, offset = 0, , position]: Parameters<Write>) {
      return write.call(this, bytes, offset, Math.min(bytes.length - offset, 7), position);
    },
  });
  t.match(await run(['--output', 'out.jsonl']), { status: 0, err: [] });
  t.equal(read('out.jsonl'), ALL);
  t.equal(JSON.parse(read('out.jsonl.manifest.json')).bytes, Buffer.byteLength(ALL));
});

t.test('a full disk ends an export behind the last part whose place is saved', async (t) => {
  const disk = smallDisk(t, '1m');
  if (disk === undefined) {
    t.comment('no file system of a fixed size can be mounted here');
    return;
  }
  const { run } = await exporting(t);
  const output = join(disk, 'out.jsonl');
  const ballast = join(disk, 'ballast');
  const message = `${output}.partial cannot be written: no space is left on the disk`;
  const PAGE = 4096;
  // Room for the rows of a part, and none for its place.
  fill(ballast);
  truncateSync(ballast, statSync(ballast).size - PAGE);
  const first = await run(['--output', output]);
  t.equal(first.status, 1);
  t.match(first.err.join('\n'), message);
  t.notMatch(first.err.join('\n'), '--resume');
  t.same(readdirSync(disk), ['ballast']);
  // Room for the place of the first part, and none to replace it.
  truncateSync(ballast, statSync(ballast).size - PAGE);
  const second = await run(['--output', output]);
  t.match(second.err.join('\n'), message);
  t.match(second.err.join('\n'), '--resume');
  t.same(readdirSync(disk).sort(), ['ballast', 'out.jsonl.partial', 'out.jsonl.partial.json']);
  rmSync(ballast);
  t.equal((await run(['--output', output, '--resume'])).status, 0);
  t.equal(readFileSync(output, 'utf8'), ALL);
});

t.test('the header of CSV is in the file once', async (t) => {
  const { run, read } = await exporting(t);
  t.equal((await run(['--format', 'csv', '--output', 'out.csv'])).status, 0);
  t.equal(read('out.csv'), rowsOf(new URLSearchParams('format=csv'), 0, ROWS));
});

t.test('goes on after a break, without what a write had begun', async (t) => {
  let breaks = true;
  const { run, read, cwd, parts } = await exporting(t, (_query, number) => {
    if (number === 4 && breaks) throw new ControlError('storage_failed', 'the store is away');
  });
  const broken = await run(['--output', 'out.jsonl']);
  t.equal(broken.status, 1);
  t.match(broken.err.join('\n'), /--resume[\s\S]*the store is away/);
  t.notOk(existsSync(join(cwd, 'out.jsonl')));
  appendFileSync(join(cwd, 'out.jsonl.partial'), '{"id":"half');
  breaks = false;
  t.equal((await run(['--output', 'out.jsonl'])).status, 64, 'a partial export is not overwritten');
  const other = await run(['name:x', '--output', 'out.jsonl', '--resume']);
  t.same([other.status, other.err.length], [64, 1]);
  t.match(other.err.join(), 'other options');
  const before = parts();
  const { status, out } = await run(['--output', 'out.jsonl', '--resume']);
  t.equal(status, 0);
  t.match(out.join(), 'Exported 20 traces to out.jsonl');
  t.equal(read('out.jsonl'), ALL);
  t.equal(parts() - before, Math.ceil(ROWS / PART_ROWS) - 3);
  t.notOk(existsSync(join(cwd, 'out.jsonl.partial')));
  t.notOk(existsSync(join(cwd, 'out.jsonl.partial.json')));
});

t.test('goes on with no file that has lost rows, and says what to do', async (t) => {
  for (const isRemoved of [false, true]) {
    let breaks = true;
    const { run, read, cwd } = await exporting(t, (_query, number) => {
      if (number === 3 && breaks) throw new ControlError('storage_failed', 'the store is away');
    });
    const argv = ['--output', 'out.jsonl'];
    t.equal((await run(argv)).status, 1);
    breaks = false;
    const size = readFileSync(join(cwd, 'out.jsonl.partial')).length;
    if (isRemoved) rmSync(join(cwd, 'out.jsonl.partial'));
    else truncateSync(join(cwd, 'out.jsonl.partial'), size - 5);
    const { status, err } = await run([...argv, '--resume']);
    t.equal(status, 1);
    const lost = isRemoved ? size : 5;
    t.match(err.join(), `has lost ${lost} of the ${size} bytes exported so far: remove `);
    rmSync(join(cwd, 'out.jsonl.partial.json'));
    t.match(await run([...argv, '--resume']), { status: 64, err: [/without --resume/] });
    t.equal((await run(argv)).status, 0);
    t.equal(read('out.jsonl'), ALL);
  }
});

t.test('goes on after a crash behind the name of the file', async (t) => {
  for (const format of ['jsonl', 'parquet']) {
    const { run, read, cwd, parts } = await exporting(t);
    const argv = ['--format', format, '--output', 'out'];
    // The manifest cannot get its name.
    mkdirSync(join(cwd, 'out.manifest.json'));
    t.not((await run(argv)).status, 0);
    t.ok(existsSync(join(cwd, 'out')));
    rmSync(join(cwd, 'out.manifest.json'), { recursive: true });
    const before = parts();
    const other = await run(['name:x', ...argv, '--resume']);
    t.match(other.err.join(), 'exists');
    t.match(await run([...argv, '--resume']), { status: 0, out: [/Exported 20 traces to out/] });
    t.equal(parts(), before, 'nothing is fetched again');
    const content = readFileSync(join(cwd, 'out'));
    t.match(JSON.parse(read('out.manifest.json')), {
      ...{ complete: true, rows: ROWS, bytes: content.length, format },
      sha256: createHash('sha256').update(content).digest('hex'),
    });
    t.same(
      readdirSync(cwd).filter((name) => name.startsWith('out')),
      ['out', 'out.manifest.json'],
    );
  }
});

t.test('Ctrl-C leaves a partial export behind a whole part', async (t) => {
  let interrupt = (): void => {};
  const { run, read } = await exporting(t, (_query, number) => {
    if (number === 2) interrupt();
  });
  const onInterrupt: Terminal['onInterrupt'] = (listener) => {
    interrupt = () => listener('SIGINT');
    return () => {};
  };
  const { status, err } = await run(['--output', 'out.jsonl'], { onInterrupt });
  t.equal(status, 130);
  t.match(err.join(), 'repeat the command with --resume');
  t.equal(read('out.jsonl.partial'), rowsOf(new URLSearchParams(), 0, 2 * PART_ROWS));
  t.equal((await run(['--output', 'out.jsonl', '--resume'])).status, 0);
  t.equal(read('out.jsonl'), ALL);
});

t.test('makes Parquet of the rows, with payloads as they were sent', async (t) => {
  const { run, cwd } = await exporting(t, (query) => {
    t.same([query.get('format'), query.get('payloads')], ['jsonl', 'text']);
  });
  const argv = ['--format', 'parquet', '--of', 'observations', '--payloads'];
  t.equal((await run([...argv, '--output', 'out.parquet'])).status, 0);
  const file = new Uint8Array(readFileSync(join(cwd, 'out.parquet'))).buffer;
  const rows = await parquetReadObjects({ file });
  t.equal(rows.length, ROWS);
  t.match(rows[19], { id: 't-19', name: 'ü\u2028t-19', inputs: '[1.0]', outputs: null });
});

t.test('writes to stdout and shows its progress', async (t) => {
  const { run } = await exporting(t);
  const chunks: Uint8Array[] = [];
  const outBytes = async (bytes: Uint8Array) => chunks.push(bytes) > 0;
  const { status, out } = await run(['--output', '-'], { outBytes });
  t.same([status, out, Buffer.concat(chunks).toString()], [0, [], ALL]);
  const refused = await run(['--output', '-', '--format', 'parquet'], { outBytes });
  t.equal(refused.status, 64);
  const shown: string[] = [];
  const screen = { columns: () => 80, write: (text: string) => void shown.push(text) };
  await run(['--output', 'out.jsonl'], { screen });
  t.match(shown.join(''), '20 traces exported');
});

t.test('ends when the reader of stdout has closed, without an error', async (t) => {
  let parts = 0;
  const { run } = await exporting(t, () => void parts++);
  const { status, err } = await run(['--output', '-'], { outBytes: async () => false });
  t.same([status, err, parts], [0, [], 1]);
});

t.test('Ctrl-C ends an export to stdout behind a whole part', async (t) => {
  const onInterrupt: Terminal['onInterrupt'] = (listener) => {
    listener('SIGINT');
    return () => {};
  };
  const { run } = await exporting(t);
  const { status, err } = await run(['--output', '-'], { onInterrupt, outBytes: async () => true });
  t.same([status, err], [130, ['Interrupted: there are more rows.']]);
});

t.test('names a wrong option', async (t) => {
  const { run, cwd } = await exporting(t, () => {
    throw new ControlError('invalid_query', 'Unknown field "modle" at character 1.');
  });
  for (const [argv, named] of [
    [['--format', 'xml'], /^error: --format must be one of jsonl/],
    [['--payloads'], /^error: --payloads goes with --of observations/],
    [['--fields', 'nmae'], /^error: --fields .*did you mean "name"\?/],
    [['modle:x'], 'Unknown field'],
    [['--resume'], 'no partial export'],
  ] as const) {
    const { status, err } = await run([...argv, '--output', 'out.jsonl']);
    t.equal(status, 64, argv.join());
    t.match(err.join(), named);
    t.notOk(existsSync(join(cwd, 'out.jsonl.partial')));
  }
  writeFileSync(join(cwd, 'out.jsonl.partial.json'), '{');
  t.equal((await run(['--output', 'out.jsonl', '--resume'])).status, 1);
});

t.test('says why a file cannot be written', async (t) => {
  const { run, cwd, parts } = await exporting(t);
  mkdirSync(join(cwd, 'taken.partial'));
  for (const [output, reason] of [
    ['none/out.jsonl', 'its directory does not exist'],
    ['tracectl.yaml/out.jsonl', 'its directory is a file'],
    ['taken', 'it is a directory'],
  ] as const) {
    const { status, err } = await run(['--output', output]);
    t.equal(status, 1);
    t.same(err, [`error: ${join(cwd, output)}.partial cannot be written: ${reason}`]);
  }
  t.equal(parts(), 0);
});
