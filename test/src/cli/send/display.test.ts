import { readFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import {
  durationText,
  renderBar,
  renderProgressLine,
  type SendProgress,
  sizeText,
} from '../../../../src/cli/send/progress.ts';
import { newTally } from '../../../../src/cli/send/tally.ts';
import type { Terminal } from '../../../../src/cli/terminal.ts';
import { widthOf } from '../../../../src/cli/width.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { ACCEPTED } from '../../../helper/otlp-server.ts';
import { allIn, directoryOf, idsOf, lineOf, rigOf, sendCommand, summaryIn, write } from './rig.ts';

/** A terminal that records the bar, and on which a test presses Ctrl-C. */
function interactive(columns = 80) {
  const shown: string[] = [];
  let press = (): void => {};
  const terminal: Partial<Terminal> = {
    screen: { columns: () => columns, write: (text) => void shown.push(text) },
    onInterrupt(listener) {
      press = () => listener('SIGINT');
      return () => {
        press = () => {};
      };
    },
  };
  return { terminal, shown, press: () => press() };
}

t.test('Ctrl-C lets requests in flight finish, and prints the options to resume', async (t) => {
  const { cwd, server } = await rigOf(t);
  const lines = Array.from({ length: 50 }, (_, i) => lineOf(i + 1));
  const [one, two] = [write(cwd, [lineOf(100)], 'one'), write(cwd, lines, 'two')];
  const { terminal, press } = interactive();
  server.always(({ spans }) => {
    if (spans[0]?.spanId === idsOf(3).spanId) press();
    return ACCEPTED;
  });
  const three = write(cwd, [lineOf(200)], 'three');
  const run = await sendCommand(
    cwd,
    [
      ...['otlp', '--file', one, '--file', two, '--file', three, '--endpoint', server.url],
      ...['--concurrency', '1', '--json'],
    ],
    terminal,
  );
  t.equal(run.status, 130);
  t.match(run.err, 'To resume: --file two --from-line 4 --file three');
  t.match(summaryIn(run), { accepted: 4, stopped: { reason: 'interrupted' } });
  t.same(allIn(server), [1, 2, 3, 100]);
  const rest = run.err.split('To resume: ')[1]?.split(' ') ?? [];
  server.always(ACCEPTED);
  t.equal((await sendCommand(cwd, ['otlp', ...rest, '--endpoint', server.url])).status, 0);
  t.equal(new Set(allIn(server)).size, 52, 'every span arrived');
});

t.test('a second Ctrl-C aborts the requests in flight, but not within one second', async (t) => {
  const { cwd, server } = await rigOf(t);
  server.always('hang');
  const file = write(cwd, [lineOf(1), lineOf(2)]);
  const { terminal, press } = interactive();
  const clock = fakeClock();
  const running = sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url], {
    ...terminal,
    clock,
  });
  await server.received(2);
  press();
  clock.advance(1_000);
  press();
  t.equal(await Promise.race([running, nextTurn('still running')]), 'still running');
  clock.advance(1);
  press();
  const run = await running;
  t.match(run, { status: 130, err: '--from-line 1' });
});

t.test('Ctrl-C ends a wait for stdin and for the next attempt', async (t) => {
  const { cwd, server } = await rigOf(t);
  const { terminal, press } = interactive();
  const never = Promise.withResolvers<void>();
  t.teardown(() => never.resolve());
  const input = async function* () {
    yield Buffer.from(`${lineOf(1)}\n`);
    await never.promise;
  };
  const reading = sendCommand(cwd, ['otlp', '--file', '-', '--endpoint', server.url], {
    ...terminal,
    input,
  });
  await server.received(1);
  press();
  t.match(await reading, { status: 130, out: '1 span accepted', err: '--file - --from-line 2' });
  server.always({ status: 503, headers: { 'retry-after': '60' } });
  const file = write(cwd, [lineOf(2)]);
  const waiting = sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url], terminal);
  await server.received(2);
  press();
  t.match(await waiting, { status: 130, err: '--from-line 1' });
});

t.test('shows a bar on a terminal, with messages above it', async (t) => {
  const { cwd, server } = await rigOf(t);
  const { terminal, shown } = interactive();
  const file = write(cwd, [lineOf(1), 'bad', lineOf(2)]);
  const run = await sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url], terminal);
  t.equal(run.status, 1);
  t.match(shown.at(-2), '100%  2 spans');
  t.equal(shown.at(-1), '\n');
  t.ok(shown.includes('\r\u001b[K'), 'the bar is cleared for a message');
  const quiet = interactive();
  await sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url, '-q'], quiet.terminal);
  t.same(quiet.shown, []);
});

function progress(
  more: Partial<SendProgress> = {},
  tally: Partial<SendProgress['tally']> = {},
): SendProgress {
  return {
    tally: { ...newTally(), bytesRead: 512 * 1024, ...tally },
    ...{ spans: 12_345, unit: 'bytes', total: 2 * 1024 * 1024, seconds: 62 },
    ...{ spansPerSecond: 1500.4, unitsPerSecond: 8192 },
    ...more,
  };
}

t.test('the bar shows share, spans, speed, refused spans, time left and bytes', async (t) => {
  const full = progress({}, { refused: 3, rejected: 1, skipped: 2 });
  const line = renderBar(full, 120);
  t.equal(
    line,
    `${'█'.repeat(8)}${'░'.repeat(22)}  25%  12,345 spans  1,500/s  4 refused  2 skipped  3m12s left  512.0 KiB/2.0 MiB`,
  );
  t.equal(renderBar(progress(), 30), ' 25%  12,345 spans  1,500/s');
  t.equal(renderBar(progress({ total: undefined }), 80), '12,345 spans  1,500/s  512.0 KiB');
  t.match(renderBar(progress({ unitsPerSecond: 0 }), 80), '3m06s left');
  t.match(renderBar(progress({ unitsPerSecond: 0 }, { bytesRead: 0 }), 80), '- left');
  t.match(
    renderBar(progress({ unit: 'spans', total: 12_345 }), 80),
    /100% {2}12,345 spans {2}1,500\/s$/,
  );
  const troubled = renderBar(progress({}, { trouble: 'answered 503: busy\u001b[2J' }), 80);
  t.match(troubled, '25%  12,345 spans  retrying: answered 503: busy\ufffd[2J');
});

t.test('the bar leaves the last column free', async (t) => {
  const arbitrary = fc.record({
    columns: fc.integer({ min: 0, max: 200 }),
    total: fc.option(fc.nat(), { nil: undefined }),
    bytesRead: fc.nat(),
    spans: fc.nat(),
    refused: fc.nat(),
    trouble: fc.option(fc.string({ maxLength: 300, unit: 'binary' }), { nil: undefined }),
    speed: fc.double({ min: 0, max: 1e9, noNaN: true }),
  });
  fc.assert(
    fc.property(arbitrary, ({ columns, total, bytesRead, spans, refused, trouble, speed }) => {
      const shown = { total, spans, spansPerSecond: speed, unitsPerSecond: speed };
      const line = renderBar(progress(shown, { bytesRead, refused, trouble }), columns);
      const width = widthOf(line);
      t.ok(width <= Math.max(0, columns - 1), `${width} in ${columns}`);
      t.notMatch(line, /[\p{Cc}\u2028\u202e]/u);
    }),
    { numRuns: 200 },
  );
});

t.test('a log gets the same facts as a line', async (t) => {
  t.equal(
    renderProgressLine(progress({}, { trouble: 'answered 503' })),
    '1m02s: 25%, 12,345 spans, 1,500/s, 3m12s left, 512.0 KiB/2.0 MiB (retrying: answered 503)',
  );
});

t.test('durations and sizes are short', async (t) => {
  t.same([0, 0.94, 59.4, 60, 3599, 3600, 86_399, 90_000].map(durationText), [
    '0.0s',
    '0.9s',
    '59s',
    '1m00s',
    '59m59s',
    '1h00m',
    '23h59m',
    '1d01h',
  ]);
  t.same([0, 1023, 1024, 1.5 * 1024 ** 3].map(sizeText), ['0 B', '1023 B', '1.0 KiB', '1.5 GiB']);
});

t.test('docs/send.md names every option', async (t) => {
  const page = readFileSync(new URL('../../../../docs/send.md', import.meta.url), 'utf8');
  const { out } = await sendCommand(directoryOf(t), ['otlp', '--help']);
  const options = [...out.matchAll(/ (--[a-z-]+)/g)].map(([, name = '']) => name);
  t.ok(options.length > 10);
  for (const name of options) if (name !== '--help') t.match(page, `\`${name}`, name);
});
