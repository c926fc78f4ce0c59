import { systemClock } from '../../component/clock.ts';
import type { Clock } from '../../component/component.ts';
import { EXIT } from '../exit-status.ts';
import { visible } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { Display } from './display.ts';
import { requestsOfFiles } from './files.ts';
import { HttpSender } from './http-sender.ts';
import type { SendOptions } from './options.ts';
import { pump, type RequestSender, type SendRequest } from './pump.ts';
import { SPANS_PER_TRACE, sampleRequests } from './sample.ts';
import { type InputSource, inputSourcesOf } from './source.ts';
import { Stop, watchInterrupts } from './stop.ts';
import { renderResume, renderSummary, type SendSummary, summaryOf } from './summary.ts';
import { answeredSpans, newTally, type Tally } from './tally.ts';

/** The parts that one run shares. */
type Run = {
  readonly options: SendOptions;
  readonly tally: Tally;
  readonly stop: Stop;
  readonly clock: Clock;
  readonly say: (message: string) => void;
};

/**
 * Runs `tracectl send`; resolves with the exit status.
 *
 *   files ─▶ lines ─▶ requests ─┐
 *   samples ─▶ requests ────────┴─▶ pump, several at once ─▶ HTTP, with retries ─▶ tally ─▶ display
 */
export async function runSend(options: SendOptions, terminal: Terminal): Promise<number> {
  const clock = terminal.clock ?? commandClock;
  const sources = await inputSourcesOf(options.files, terminal);
  const tally = newTally();
  const display = new Display(terminal, {
    tally,
    spans: () => (options.isDryRun ? tally.spans : answeredSpans(tally)),
    ...lengthOf(options, sources),
    isQuiet: options.isQuiet,
    clock,
  });
  const say = (message: string): void => display.say(visible(message));
  const stop = new Stop(clock);
  const run = { options, tally, stop, clock, say };
  const sender = senderOf(run);
  await sender.open();
  const endWatch = watchInterrupts(terminal, stop, clock, say, () => void sender.close());
  display.start();
  try {
    const start = { source: 0, line: options.fromLine };
    const { concurrency, isDryRun, files } = options;
    const pace = { concurrency, rate: isDryRun ? undefined : options.rate };
    const resume = await pump(requestsOf(run, sources), start, sender, stop, clock, pace);
    display.end();
    const summary = summaryOf(tally, {
      ...{ isDryRun, files, seconds: display.seconds, stop },
      resume: sources.length > 0 ? resume : undefined,
    });
    print(summary, options, terminal);
    return statusOf(summary);
  } finally {
    display.end();
    endWatch();
    await sender.close();
  }
}

/** The longest timeout of Node. */
const LONGEST_MS = 2_147_483_647;

/** The time of the machine. Other than with `systemClock`, a timer keeps the process alive until it fires. */
const commandClock: Clock = {
  now: () => Date.now(),
  uptime: systemClock.uptime,
  after(ms, callback) {
    const timer = setTimeout(callback, Math.min(ms, LONGEST_MS));
    return () => clearTimeout(timer);
  },
};

/** The unit and the end of the progress. */
function lengthOf({ count }: SendOptions, sources: readonly InputSource[]) {
  if (count !== undefined) return { unit: 'spans', total: count * SPANS_PER_TRACE } as const;
  const sizes = sources.map(({ size }) => size ?? Number.NaN);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  return { unit: 'bytes', total: Number.isNaN(total) ? undefined : total } as const;
}

function senderOf({ options, tally, stop, clock, say }: Run): RequestSender {
  if (options.isDryRun) {
    const nothing = async (): Promise<void> => {};
    return { open: nothing, send: async () => true, close: nothing };
  }
  const { kind, encoding, concurrency } = options;
  const protocol = kind !== 'otlp' ? 'native' : encoding === 'proto' ? 'otlp_proto' : 'otlp_json';
  const destination = { ...options, protocol, connections: concurrency } as const;
  return new HttpSender(destination, { tally, stop, clock, onTrouble: say });
}

function requestsOf(
  { options, tally, clock, say }: Run,
  sources: readonly InputSource[],
): AsyncGenerator<SendRequest> {
  const { kind, count, encoding, maxSpans, rate, fromLine } = options;
  if (count !== undefined) {
    const onSpans = (generated: number): void => {
      tally.spans += generated;
    };
    return sampleRequests(kind, { traces: count, encoding, maxSpans, rate, clock, onSpans });
  }
  const progress = {
    bytes(read: number) {
      tally.bytesRead += read;
    },
    line(spans: number) {
      tally.lines++;
      tally.spans += spans;
    },
    skipped(place: string, reason: string) {
      tally.skipped++;
      say(`${place}: skipped: ${reason}`);
    },
  };
  return requestsOfFiles({ sources, encoding, maxSpans, fromLine, progress });
}

function print(summary: SendSummary, options: SendOptions, terminal: Terminal): void {
  if (options.isJson) terminal.out(JSON.stringify(summary, null, 2));
  else if (!options.isQuiet) terminal.out(renderSummary(summary));
  const { stopped } = summary;
  if (stopped === null) return;
  const resume = renderResume(summary, options.files);
  if (stopped.reason !== 'interrupted') terminal.err(visible(`error: ${stopped.message}`));
  if (resume !== undefined) terminal.err(resume);
}

function statusOf({ stopped, rejected, refused, left_out }: SendSummary): number {
  switch (stopped?.reason) {
    case 'interrupted':
      return EXIT.interrupted;
    case 'unreachable':
      return EXIT.unavailable;
    case 'unauthorized':
      return EXIT.failed;
    case undefined:
      return rejected + refused + left_out > 0 ? EXIT.failed : EXIT.ok;
  }
}
