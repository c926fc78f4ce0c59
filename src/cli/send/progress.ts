import { visible } from '../table.ts';
import type { Tally } from './tally.ts';

/** What a look at a run in progress shows. */
export type Progress = {
  readonly tally: Tally;
  /** That are done with. */
  readonly spans: number;
  /** How far it is: bytes of the files or spans; `total` is undefined where nobody knows. */
  readonly unit: 'bytes' | 'spans';
  readonly total: number | undefined;
  readonly seconds: number;
  /** Of late, in spans and in the unit. */
  readonly spansPerSecond: number;
  readonly unitsPerSecond: number;
};

const MOST_BAR_COLUMNS = 30;
const LEAST_BAR_COLUMNS = 8;

/**
 * One line for a terminal of so many columns, never longer. What does not fit is left out from its end on, but
 * for the trouble there is, which takes the room of the rest.
 */
export function renderBar(progress: Progress, columns: number): string {
  const room = Math.max(0, columns - 1);
  const { trouble } = progress.tally;
  const share = shareOf(progress);
  const head = share === undefined ? '' : `${Math.floor(share * 100)}%`.padStart(4);
  const facts = trouble === undefined ? factsOf(progress) : troubledFacts(progress, trouble);
  let line = '';
  for (const fact of facts) {
    const longer = line === '' ? fact : `${line}  ${fact}`;
    if (head.length + 2 + longer.length > room && line !== '') break;
    line = longer;
  }
  const text = head === '' ? line : `${head}  ${line}`;
  const left = room - text.length - 2;
  if (share === undefined || left < LEAST_BAR_COLUMNS) return text.slice(0, room);
  const width = Math.min(left, MOST_BAR_COLUMNS);
  const full = Math.round(share * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}${text.padStart(text.length + 1)}`;
}

/** One line for a log. */
export function renderLine(progress: Progress): string {
  const share = shareOf(progress);
  const { trouble } = progress.tally;
  return [
    `${span(progress.seconds)}:`,
    ...(share === undefined ? [] : [`${Math.floor(share * 100)}%,`]),
    factsOf(progress).join(', '),
    ...(trouble === undefined ? [] : [`(trying again: ${visible(trouble)})`]),
  ].join(' ');
}

function shareOf(progress: Progress): number | undefined {
  const { total } = progress;
  if (total === undefined) return undefined;
  return total === 0 ? 1 : Math.min(1, doneOf(progress) / total);
}

function doneOf({ tally, unit, spans }: Progress): number {
  return unit === 'bytes' ? tally.bytesRead : spans;
}

/** The most telling first. */
function factsOf(progress: Progress): string[] {
  const { tally, unit, total, spans, spansPerSecond, unitsPerSecond } = progress;
  const { refused, rejected, leftOut } = tally;
  const lost = refused + rejected;
  const facts = [`${count(spans)} spans`, `${count(spansPerSecond)}/s`];
  if (lost > 0) facts.push(`${count(lost)} refused`);
  if (leftOut > 0) facts.push(`${count(leftOut)} left out`);
  const done = doneOf(progress);
  if (total !== undefined && done < total) {
    // Where nothing has been read of late, as while a long line is sent, all the time before counts.
    const speed = unitsPerSecond > 0 ? unitsPerSecond : done / progress.seconds;
    facts.push(`${speed > 0 ? span((total - done) / speed) : '-'} left`);
  }
  if (unit === 'bytes')
    facts.push(total === undefined ? size(done) : `${size(done)}/${size(total)}`);
  return facts;
}

function troubledFacts(progress: Progress, trouble: string): string[] {
  const [spans = ''] = factsOf(progress);
  return [spans, `trying again: ${visible(trouble)}`];
}

/** `12,345`. */
export function count(number: number): string {
  return Math.round(number).toLocaleString('en-US');
}

/** `0.4s`, `9s`, `3m05s`, `2h07m`, `3d04h`. */
export function span(seconds: number): string {
  if (seconds < 0.95) return `${seconds.toFixed(1)}s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  const [large, small, of] =
    whole < 3600 ? ['m', 's', 60] : whole < 86_400 ? ['h', 'm', 3600] : ['d', 'h', 86_400];
  const rest = Math.floor((whole % of) / (of === 86_400 ? 3600 : of / 60));
  return `${Math.floor(whole / of)}${large}${String(rest).padStart(2, '0')}${small}`;
}

const UNITS = ['KiB', 'MiB', 'GiB', 'TiB'];

/** `812 B`, `1.4 GiB`. */
export function size(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(UNITS.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${UNITS[power - 1]}`;
}
