import { visible } from '../table.ts';
import type { Position } from './piece.ts';
import { count, size, span } from './progress.ts';
import type { Stop, StopReason } from './stop.ts';
import type { Tally } from './tally.ts';

/** What `--json` prints. */
export type Summary = {
  readonly dry_run: boolean;
  readonly lines: number;
  readonly spans: number;
  readonly accepted: number;
  readonly rejected: number;
  readonly refused: number;
  readonly left_out: number;
  readonly requests: number;
  readonly retries: number;
  readonly bytes_read: number;
  readonly bytes_sent: number;
  readonly seconds: number;
  /** Null where all that could be sent was. */
  readonly stopped: { readonly reason: StopReason; readonly message: string } | null;
  /** Where to go on from: the number of the file as it was given, from 0 on, and its line. */
  readonly resume: Resume | null;
};

export type Resume = { readonly file: string; readonly file_number: number; readonly line: number };

export type Outcome = {
  readonly isDryRun: boolean;
  readonly seconds: number;
  readonly stop: Stop;
  readonly resume: Position | undefined;
  /** As they were given. */
  readonly files: readonly string[];
};

export function summaryOf(tally: Tally, outcome: Outcome): Summary {
  const { isDryRun, seconds, stop, resume, files } = outcome;
  return {
    dry_run: isDryRun,
    lines: tally.lines,
    spans: tally.spans,
    accepted: tally.accepted,
    rejected: tally.rejected,
    refused: tally.refused,
    left_out: tally.leftOut,
    requests: tally.requests,
    retries: tally.retries,
    bytes_read: tally.bytesRead,
    bytes_sent: tally.bytesSent,
    seconds: Math.round(seconds * 1000) / 1000,
    stopped: stop.reason === undefined ? null : { reason: stop.reason, message: stop.message },
    resume: resume === undefined ? null : resumeAt(resume, files),
  };
}

function resumeAt({ source, line }: Position, files: readonly string[]): Resume {
  return { file: files[source] ?? '', file_number: source, line };
}

/** For people. */
export function renderSummary(summary: Summary): string {
  const { spans, lines, left_out, accepted, rejected, refused, requests, retries } = summary;
  const missing =
    left_out === 0 ? [] : [`  left out ${plural(left_out, 'line')} that cannot be read`];
  if (summary.dry_run) {
    const found = `${plural(spans, 'span')} in ${plural(lines, 'line')}; nothing was sent.`;
    return [found, ...missing].join('\n');
  }
  const speed = summary.seconds > 0 ? accepted / summary.seconds : 0;
  const again = retries === 0 ? '' : `, ${count(retries)} tried again`;
  return [
    `${plural(accepted, 'span')} accepted, in ${span(summary.seconds)} (${count(speed)}/s): ` +
      `${plural(requests, 'request')}${again}, ${size(summary.bytes_sent)} sent`,
    ...(rejected === 0
      ? []
      : [`  rejected ${plural(rejected, 'span')} of requests that were taken`]),
    ...(refused === 0 ? [] : [`  refused ${plural(refused, 'span')}, with their requests`]),
    ...missing,
  ].join('\n');
}

/** How to go on after a stop; undefined where there is nothing to go on with. */
export function renderResume({ resume }: Summary, files: readonly string[]): string | undefined {
  if (resume === null) return undefined;
  const [file = '', ...later] = files
    .slice(resume.file_number)
    .map((name) => `--file ${quoted(name)}`);
  return ['To go on:', file, `--from-line ${resume.line}`, ...later].join(' ');
}

function plural(number: number, what: string): string {
  return `${count(number)} ${what}${number === 1 ? '' : 's'}`;
}

/** As a shell takes it. */
function quoted(name: string): string {
  return /^[\w@%+=:,./-]+$/.test(name) ? name : `'${visible(name).replaceAll("'", "'\\''")}'`;
}
