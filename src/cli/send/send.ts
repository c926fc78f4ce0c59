import { EXIT } from '../exit-status.ts';
import { visible } from '../table.ts';
import type { Terminal } from '../terminal.ts';
import { Deliverer } from './deliver.ts';
import { Display } from './display.ts';
import { piecesOfFiles } from './files.ts';
import { watchInterrupts } from './interrupts.ts';
import type { SendOptions } from './options.ts';
import type { Piece } from './piece.ts';
import { type Delivery, pump } from './pump.ts';
import { SPANS_OF_TRACE, samplePieces } from './sample.ts';
import { type Source, sourcesOf } from './source.ts';
import { Stop } from './stop.ts';
import { renderResume, renderSummary, type Summary, summaryOf } from './summary.ts';
import { answered, newTally, type Tally } from './tally.ts';

/**
 * Carries out `tracectl send`; gives the exit status.
 *
 *   files ─▶ lines ─▶ requests ─┐
 *   samples ─▶ requests ────────┴─▶ pump, several at once ─▶ deliver, with retries ─▶ tally ─▶ display
 */
export async function send(options: SendOptions, terminal: Terminal): Promise<number> {
  const sources = await sourcesOf(options.files, terminal);
  const tally = newTally();
  const display = new Display(terminal, {
    tally,
    spans: () => (options.isDryRun ? tally.spans : answered(tally)),
    ...lengthOf(options, sources),
    isQuiet: options.isQuiet,
  });
  const say = (message: string): void => display.say(visible(message));
  const stop = new Stop();
  const delivery = deliveryOf(options, tally, stop, say);
  await delivery.open();
  const leaveInterrupts = watchInterrupts(terminal, stop, say, () => void delivery.close());
  display.start();
  try {
    const pieces = piecesOf(options, sources, tally, say);
    const start = { source: 0, line: options.fromLine };
    const rate = options.isDryRun ? undefined : options.rate;
    const resume = await pump(pieces, start, delivery, stop, { ...options, rate });
    display.end();
    const { isDryRun, files } = options;
    const isFromFiles = sources.length > 0;
    const summary = summaryOf(tally, {
      ...{ isDryRun, files, seconds: display.seconds, stop },
      resume: isFromFiles ? resume : undefined,
    });
    conclude(summary, options, terminal);
    return statusOf(summary);
  } finally {
    display.end();
    leaveInterrupts();
    await delivery.close();
  }
}

/** What the bar is a share of. */
function lengthOf({ count }: SendOptions, sources: readonly Source[]) {
  if (count !== undefined) return { unit: 'spans', total: count * SPANS_OF_TRACE } as const;
  const sizes = sources.map(({ size }) => size ?? Number.NaN);
  const total = sizes.reduce((sum, size) => sum + size, 0);
  return { unit: 'bytes', total: Number.isNaN(total) ? undefined : total } as const;
}

function deliveryOf(
  options: SendOptions,
  tally: Tally,
  stop: Stop,
  say: (message: string) => void,
): Delivery {
  if (options.isDryRun) {
    const nothing = async (): Promise<void> => {};
    return { open: nothing, deliver: async () => true, close: nothing };
  }
  const { kind, encoding, concurrency } = options;
  const protocol = kind !== 'otlp' ? 'native' : encoding === 'proto' ? 'otlp_proto' : 'otlp_json';
  return new Deliverer({ ...options, protocol, connections: concurrency }, tally, stop, say);
}

function piecesOf(
  options: SendOptions,
  sources: readonly Source[],
  tally: Tally,
  say: (message: string) => void,
): AsyncGenerator<Piece> {
  const { kind, count, encoding, maxSpans, rate, fromLine } = options;
  if (count !== undefined) {
    const onSpans = (made: number): void => {
      tally.spans += made;
    };
    return samplePieces(kind, { traces: count, encoding, maxSpans, rate, onSpans });
  }
  const progress = {
    bytes(read: number) {
      tally.bytesRead += read;
    },
    line(spans: number) {
      tally.lines++;
      tally.spans += spans;
    },
    leftOut(place: string, reason: string) {
      tally.leftOut++;
      say(`${place}: left out: ${reason}`);
    },
  };
  return piecesOfFiles({ sources, encoding, maxSpans, fromLine, progress });
}

function conclude(summary: Summary, options: SendOptions, terminal: Terminal): void {
  if (options.isJson) terminal.out(JSON.stringify(summary, null, 2));
  else if (!options.isQuiet) terminal.out(renderSummary(summary));
  const { stopped } = summary;
  if (stopped === null) return;
  const resume = renderResume(summary, options.files);
  if (stopped.reason !== 'interrupted') terminal.err(visible(`error: ${stopped.message}`));
  if (resume !== undefined) terminal.err(resume);
}

/** As a shell has it for what Ctrl-C ended. */
const INTERRUPTED = 130;

function statusOf({ stopped, rejected, refused, left_out }: Summary): number {
  switch (stopped?.reason) {
    case 'interrupted':
      return INTERRUPTED;
    case 'unreachable':
      return EXIT.unavailable;
    case 'unauthorized':
      return EXIT.failed;
    case undefined:
      return rejected + refused + left_out > 0 ? EXIT.failed : EXIT.ok;
  }
}
