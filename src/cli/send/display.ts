import type { Clock } from '../../component/component.ts';
import type { Terminal } from '../terminal.ts';
import { renderBar, renderProgressLine, type SendProgress } from './progress.ts';
import type { Tally } from './tally.ts';

export type DisplayOptions = {
  readonly tally: Tally;
  /** Spans that are done. */
  readonly spans: () => number;
  readonly unit: 'bytes' | 'spans';
  readonly total: number | undefined;
  readonly isQuiet: boolean;
  readonly clock: Clock;
};

const BAR_INTERVAL_MS = 100;
const LINE_INTERVAL_MS = 10_000;
/** Speeds are averages over this time. */
const SPEED_WINDOW_MS = 10_000;
const CLEAR_LINE = '\r\u001b[K';

/** The progress of a run: a bar if stderr is a terminal, otherwise a line every ten seconds. */
export class Display {
  readonly #terminal: Terminal;
  readonly #options: DisplayOptions;
  readonly #startedAt: number;
  /** Samples of the progress within the window, the oldest first. */
  readonly #samples: { at: number; spans: number; units: number }[] = [];
  #cancel: (() => void) | undefined;

  constructor(terminal: Terminal, options: DisplayOptions) {
    this.#terminal = terminal;
    this.#options = options;
    this.#startedAt = options.clock.now();
  }

  get seconds(): number {
    return (this.#options.clock.now() - this.#startedAt) / 1000;
  }

  start(): void {
    if (this.#options.isQuiet) return;
    this.#sample();
    this.#showLater();
    if (this.#terminal.screen !== undefined) this.#show();
  }

  #showLater(): void {
    const interval = this.#terminal.screen === undefined ? LINE_INTERVAL_MS : BAR_INTERVAL_MS;
    this.#cancel = this.#options.clock.after(interval, () => {
      this.#showLater();
      this.#show();
    });
  }

  /** Prints a message, above the bar. */
  say(message: string): void {
    const { screen } = this.#terminal;
    if (this.#cancel === undefined || screen === undefined) {
      this.#terminal.err(message);
      return;
    }
    screen.write(CLEAR_LINE);
    this.#terminal.err(message);
    this.#show();
  }

  /** Leaves the last state of the bar on the screen. */
  end(): void {
    if (this.#cancel === undefined) return;
    this.#cancel();
    this.#cancel = undefined;
    const { screen } = this.#terminal;
    if (screen === undefined) return;
    this.#show();
    screen.write('\n');
  }

  #show(): void {
    const progress = this.#progress();
    const { screen, err } = this.#terminal;
    if (screen === undefined) err(renderProgressLine(progress));
    else screen.write(`${CLEAR_LINE}${renderBar(progress, screen.columns())}`);
  }

  #progress(): SendProgress {
    const { tally, unit, total } = this.#options;
    const last = this.#sample();
    const [first = last] = this.#samples;
    const seconds = Math.max(0.001, (last.at - first.at) / 1000);
    return {
      ...{ tally, spans: last.spans, unit, total, seconds: this.seconds },
      spansPerSecond: (last.spans - first.spans) / seconds,
      unitsPerSecond: (last.units - first.units) / seconds,
    };
  }

  #sample() {
    const { tally, unit, clock } = this.#options;
    const at = clock.now();
    const spans = this.#options.spans();
    const sample = { at, spans, units: unit === 'bytes' ? tally.bytesRead : spans };
    const samples = this.#samples;
    samples.push(sample);
    while (samples.length > 2 && at - (samples[0]?.at ?? at) > SPEED_WINDOW_MS) samples.shift();
    return sample;
  }
}
