import { visible } from '../table.ts';
import { countText, durationText, sizeText } from './progress.ts';
import type { LinePosition } from './pump.ts';
import type { Stop, StopReason } from './stop.ts';
import type { Tally } from './tally.ts';

/** The object that `--json` prints. */
export type SendSummary = {
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
  /** Null if the run reached its end. */
  readonly stopped: { readonly reason: StopReason; readonly message: string } | null;
  /** The position to resume from: the file, its number on the command line from 0, and its line. */
  readonly resume: ResumePoint | null;
};

type ResumePoint = {
  readonly file: string;
  readonly file_number: number;
  readonly line: number;
};

export type RunFacts = {
  readonly isDryRun: boolean;
  readonly seconds: number;
  readonly stop: Stop;
  readonly resume: LinePosition | undefined;
  /** As on the command line. */
  readonly files: readonly string[];
};

export function summaryOf(tally: Tally, facts: RunFacts): SendSummary {
  const { isDryRun, seconds, stop, resume, files } = facts;
  return {
    dry_run: isDryRun,
    lines: tally.lines,
    spans: tally.spans,
    accepted: tally.accepted,
    rejected: tally.rejected,
    refused: tally.refused,
    left_out: tally.skipped,
    requests: tally.requests,
    retries: tally.retries,
    bytes_read: tally.bytesRead,
    bytes_sent: tally.bytesSent,
    seconds: Math.round(seconds * 1000) / 1000,
    stopped: stop.reason === undefined ? null : { reason: stop.reason, message: stop.message },
    resume: resume === undefined ? null : resumeAt(resume, files),
  };
}

function resumeAt({ source, line }: LinePosition, files: readonly string[]): ResumePoint {
  return { file: files[source] ?? '', file_number: source, line };
}

/** The summary as text. */
export function renderSummary(summary: SendSummary): string {
  const { spans, lines, left_out, accepted, rejected, refused, requests, retries } = summary;
  const skipped =
    left_out === 0 ? [] : [`  skipped ${plural(left_out, 'line')} that cannot be read`];
  if (summary.dry_run) {
    const found = `${plural(spans, 'span')} in ${plural(lines, 'line')}; dry run, nothing was sent.`;
    return [found, ...skipped].join('\n');
  }
  const speed = summary.seconds > 0 ? accepted / summary.seconds : 0;
  const retried = retries === 0 ? '' : `, ${plural(retries, 'retry')}`;
  return [
    `${plural(accepted, 'span')} accepted, in ${durationText(summary.seconds)} (${countText(speed)}/s): ` +
      `${plural(requests, 'request')}${retried}, ${sizeText(summary.bytes_sent)} sent`,
    ...(rejected === 0 ? [] : [`  rejected ${plural(rejected, 'span')} in partial successes`]),
    ...(refused === 0 ? [] : [`  refused ${plural(refused, 'span')} in failed requests`]),
    ...skipped,
  ].join('\n');
}

/** The options that resume the run; undefined if no line is left to send. */
export function renderResume(
  { resume }: SendSummary,
  files: readonly string[],
): string | undefined {
  if (resume === null) return undefined;
  const [file = '', ...later] = files
    .slice(resume.file_number)
    .map((name) => `--file ${quoted(name)}`);
  return ['To resume:', file, `--from-line ${resume.line}`, ...later].join(' ');
}

function plural(number: number, noun: string): string {
  const plural = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${countText(number)} ${number === 1 ? noun : plural}`;
}

/** Quotes a name for a shell. */
function quoted(name: string): string {
  return /^[\w@%+=:,./-]+$/.test(name) ? name : `'${visible(name).replaceAll("'", "'\\''")}'`;
}
