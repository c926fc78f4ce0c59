import { parseHttpUrl } from '../../schema/client-fields.ts';
import { parseDuration } from '../../schema/fields.ts';
import { CommandError, EXIT } from '../exit-status.ts';
import type { Terminal } from '../terminal.ts';
import type { SampleKind } from './sample.ts';

/** The options as text. */
export type RawOptions = {
  readonly file?: readonly string[];
  readonly count?: string;
  readonly endpoint: string;
  readonly key?: string;
  readonly header?: readonly string[];
  readonly encoding?: string;
  readonly compression: string;
  readonly maxSpans?: string;
  readonly rate?: string;
  readonly concurrency: string;
  readonly fromLine?: string;
  readonly retryFor: string;
  readonly caFile?: string;
  readonly dryRun?: boolean;
  readonly quiet?: boolean;
  readonly json?: boolean;
};

export type SendOptions = {
  readonly kind: SampleKind;
  /** Empty for samples. */
  readonly files: readonly string[];
  readonly fromLine: number;
  /** Traces to generate. */
  readonly count: number | undefined;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly encoding: 'proto' | 'json';
  readonly compression: 'gzip' | 'zstd' | 'none';
  readonly maxSpans: number | undefined;
  readonly rate: number | undefined;
  readonly concurrency: number;
  readonly retryFor: number;
  readonly caFile: string | undefined;
  readonly isDryRun: boolean;
  readonly isQuiet: boolean;
  readonly isJson: boolean;
};

const PATHS: Readonly<Record<SampleKind, string>> = {
  otlp: '/v1/traces',
  native: '/api/v1/observations/batch',
  runs: '/api/v1/runs/batch',
};
const MOST_CONCURRENCY = 256;
/** A lower rate is a mistake of units. */
const LEAST_RATE = 0.001;

/** Throws a `CommandError` that names the option. */
export function readOptions(kind: SampleKind, raw: RawOptions, terminal: Terminal): SendOptions {
  const files = raw.file ?? [];
  const count = raw.count === undefined ? undefined : wholeNumber('--count', raw.count, 1);
  if (files.length > 0 === (count !== undefined)) {
    throw wrong(kind === 'otlp' ? 'give --file FILE, or --count N' : 'give --count N');
  }
  if (raw.fromLine !== undefined && files.length === 0) throw wrong('--from-line needs --file');
  return {
    kind,
    files,
    count,
    fromLine: wholeNumber('--from-line', raw.fromLine ?? '1', 1),
    url: urlOf(raw.endpoint, PATHS[kind]),
    headers: headersOf(raw, terminal),
    encoding: raw.encoding === 'json' || kind !== 'otlp' ? 'json' : 'proto',
    compression: raw.compression as SendOptions['compression'],
    maxSpans: raw.maxSpans === undefined ? undefined : wholeNumber('--max-spans', raw.maxSpans, 1),
    rate: raw.rate === undefined ? undefined : rateOf(raw.rate),
    concurrency: wholeNumber('--concurrency', raw.concurrency, 1, MOST_CONCURRENCY),
    retryFor: durationOf('--retry-for', raw.retryFor),
    caFile: raw.caFile,
    isDryRun: raw.dryRun === true,
    isQuiet: raw.quiet === true,
    isJson: raw.json === true,
  };
}

/** The address of the requests: the usual path is only added to an endpoint without a path. */
function urlOf(endpoint: string, path: string): string {
  const url = parseHttpUrl(endpoint);
  if (url === undefined) {
    throw wrong(`--endpoint must be a URL such as http://127.0.0.1:4318, not "${endpoint}"`);
  }
  if (url.pathname === '/') url.pathname = path;
  return url.href;
}

function headersOf({ key, header = [] }: RawOptions, { env }: Terminal): Record<string, string> {
  // In lower case, so that --header replaces the authorization of --key.
  const headers: Record<string, string> = {};
  const token = key ?? env.TRACECTL_KEY;
  if (token !== undefined && token !== '') headers.authorization = `Bearer ${token}`;
  for (const each of header) {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(.*)$/s.exec(each) ?? [];
    // The value may be a secret, so the message does not repeat it.
    if (name === undefined || value === undefined) throw wrong('--header must be NAME=VALUE');
    headers[name.toLowerCase()] = value;
  }
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw wrong(`the header ${name} must be one line of Latin-1 text`);
    }
  }
  return headers;
}

function wholeNumber(option: string, text: string, least: number, most?: number): number {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number) && number >= least && number <= (most ?? number)) return number;
  const range = most === undefined ? `of ${least} or more` : `from ${least} to ${most}`;
  throw wrong(`${option} must be a whole number ${range}, not "${text}"`);
}

function rateOf(text: string): number {
  const rate = /^\d+(\.\d+)?$/.test(text) ? Number(text) : 0;
  if (rate >= LEAST_RATE && Number.isFinite(rate)) return rate;
  throw wrong(`--rate must be spans a second, above 0, not "${text}"`);
}

function durationOf(option: string, text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined) return ms;
  throw wrong(`${option} must be a duration such as 30s, 5m or 0, not "${text}"`);
}

function wrong(message: string): CommandError {
  return new CommandError(EXIT.usage, message);
}
