import type { Terminal } from '../terminal.ts';
import { type Progress, renderBar, renderLine } from './progress.ts';
import type { Tally } from './tally.ts';

export type DisplayOptions = {
  readonly tally: Tally;
  /** That are done with. */
  readonly spans: () => number;
  readonly unit: 'bytes' | 'spans';
  readonly total: number | undefined;
  readonly isQuiet: boolean;
};

const BAR_INTERVAL_MS = 100;
const LINE_INTERVAL_MS = 10_000;
/** What a speed is taken over. */
const SPEED_WINDOW_MS = 10_000;
const CLEAR_LINE = '\r\u001b[K';

/** What a person sees of a run: a bar where stderr is a terminal, else a line now and then. */
export class Display {
  readonly #terminal: Terminal;
  readonly #options: DisplayOptions;
  readonly #startedAt = Date.now();
  /** Looks back over the window, the oldest first. */
  readonly #looks: { at: number; spans: number; units: number }[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(terminal: Terminal, options: DisplayOptions) {
    this.#terminal = terminal;
    this.#options = options;
  }

  get seconds(): number {
    return (Date.now() - this.#startedAt) / 1000;
  }

  start(): void {
    if (this.#options.isQuiet) return;
    const isBar = this.#terminal.screen !== undefined;
    const interval = isBar ? BAR_INTERVAL_MS : LINE_INTERVAL_MS;
    this.#look();
    this.#timer = setInterval(() => this.#show(), interval);
    this.#timer.unref();
    if (isBar) this.#show();
  }

  /** A message above the bar. */
  say(message: string): void {
    const { screen } = this.#terminal;
    if (this.#timer === undefined || screen === undefined) {
      this.#terminal.err(message);
      return;
    }
    screen.write(CLEAR_LINE);
    this.#terminal.err(message);
    this.#show();
  }

  /** Leaves the last state of the bar on the screen. */
  end(): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    const { screen } = this.#terminal;
    if (screen === undefined) return;
    this.#show();
    screen.write('\n');
  }

  #show(): void {
    const progress = this.#progress();
    const { screen, err } = this.#terminal;
    if (screen === undefined) err(renderLine(progress));
    else screen.write(`${CLEAR_LINE}${renderBar(progress, screen.columns())}`);
  }

  #progress(): Progress {
    const { tally, unit, total } = this.#options;
    const last = this.#look();
    const [first = last] = this.#looks;
    const seconds = Math.max(0.001, (last.at - first.at) / 1000);
    return {
      ...{ tally, spans: last.spans, unit, total, seconds: this.seconds },
      spansPerSecond: (last.spans - first.spans) / seconds,
      unitsPerSecond: (last.units - first.units) / seconds,
    };
  }

  #look() {
    const { tally, unit } = this.#options;
    const at = Date.now();
    const spans = this.#options.spans();
    const look = { at, spans, units: unit === 'bytes' ? tally.bytesRead : spans };
    const looks = this.#looks;
    looks.push(look);
    while (looks.length > 2 && at - (looks[0]?.at ?? at) > SPEED_WINDOW_MS) looks.shift();
    return look;
  }
}
