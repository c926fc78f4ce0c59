import { visible } from '../table.ts';
import { cutTo, widthOf } from '../width.ts';
import type { Tally } from './tally.ts';

/** The state of a run that the display shows. */
export type SendProgress = {
  readonly tally: Tally;
  /** Spans that are done. */
  readonly spans: number;
  /** The unit of progress: bytes of the files, or spans; `total` is undefined if it is not known. */
  readonly unit: 'bytes' | 'spans';
  readonly total: number | undefined;
  readonly seconds: number;
  /** Recent speeds, in spans and in the unit. */
  readonly spansPerSecond: number;
  readonly unitsPerSecond: number;
};

const MOST_BAR_COLUMNS = 30;
const LEAST_BAR_COLUMNS = 8;

/**
 * One line for a terminal of this width. Facts that do not fit are left out from the end; a current failure
 * takes the room of the other facts.
 */
export function renderBar(progress: SendProgress, columns: number): string {
  const room = Math.max(0, columns - 1);
  const { trouble } = progress.tally;
  const share = shareOf(progress);
  const head = share === undefined ? '' : `${Math.floor(share * 100)}%`.padStart(4);
  const facts = trouble === undefined ? factsOf(progress) : troubledFacts(progress, trouble);
  let line = '';
  for (const fact of facts) {
    const longer = line === '' ? fact : `${line}  ${fact}`;
    if (head.length + 2 + widthOf(longer) > room && line !== '') break;
    line = longer;
  }
  const text = head === '' ? line : `${head}  ${line}`;
  const left = room - widthOf(text) - 2;
  if (share === undefined || left < LEAST_BAR_COLUMNS) return cutTo(text, room);
  const width = Math.min(left, MOST_BAR_COLUMNS);
  const full = Math.round(share * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)} ${text}`;
}

/** One line for a log. */
export function renderProgressLine(progress: SendProgress): string {
  const share = shareOf(progress);
  const { trouble } = progress.tally;
  return [
    `${durationText(progress.seconds)}:`,
    ...(share === undefined ? [] : [`${Math.floor(share * 100)}%,`]),
    factsOf(progress).join(', '),
    ...(trouble === undefined ? [] : [`(retrying: ${visible(trouble)})`]),
  ].join(' ');
}

function shareOf(progress: SendProgress): number | undefined {
  const { total } = progress;
  if (total === undefined) return undefined;
  return total === 0 ? 1 : Math.min(1, doneOf(progress) / total);
}

function doneOf({ tally, unit, spans }: SendProgress): number {
  return unit === 'bytes' ? tally.bytesRead : spans;
}

/** In the order of their importance. */
function factsOf(progress: SendProgress): string[] {
  const { tally, unit, total, spans, spansPerSecond, unitsPerSecond } = progress;
  const { refused, rejected, skipped } = tally;
  const lost = refused + rejected;
  const facts = [`${countText(spans)} spans`, `${countText(spansPerSecond)}/s`];
  if (lost > 0) facts.push(`${countText(lost)} refused`);
  if (skipped > 0) facts.push(`${countText(skipped)} skipped`);
  const done = doneOf(progress);
  if (total !== undefined && done < total) {
    // Without a recent read, such as while a long line is sent, the average of the whole run counts.
    const speed = unitsPerSecond > 0 ? unitsPerSecond : done / progress.seconds;
    facts.push(`${speed > 0 ? durationText((total - done) / speed) : '-'} left`);
  }
  if (unit === 'bytes')
    facts.push(total === undefined ? sizeText(done) : `${sizeText(done)}/${sizeText(total)}`);
  return facts;
}

function troubledFacts(progress: SendProgress, trouble: string): string[] {
  const [spans = ''] = factsOf(progress);
  return [spans, `retrying: ${visible(trouble)}`];
}

/** `12,345`. */
export function countText(number: number): string {
  return Math.round(number).toLocaleString('en-US');
}

/** `0.4s`, `9s`, `3m05s`, `2h07m`, `3d04h`. */
export function durationText(seconds: number): string {
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
export function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const power = Math.min(UNITS.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${UNITS[power - 1]}`;
}
