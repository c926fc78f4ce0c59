import type { DestinationStream } from 'pino';
import { destination as openDestination, pino } from 'pino';
import { systemClock } from '../component/clock.ts';
import type { Logger } from '../component/component.ts';
import { waitAtMost } from '../component/waits.ts';
import { renderConsole } from './console.ts';
import { escapeControlsInText } from './control-characters.ts';
import { createLineBound } from './line-bound.ts';

type LogLevel = 'debug' | 'info' | 'warn' | 'error';
type LogEncoding = 'console' | 'json';

export type LoggerOptions = {
  readonly level: LogLevel;
  readonly encoding: LogEncoding;
  /** Lines of one component and text in 10 s, but those of level debug. */
  readonly repeated_lines: number;
  /** Receives each line; the default writes to standard error. */
  readonly write?: (line: string) => void;
  /** Milliseconds; the default is the time of the machine. */
  readonly now?: () => number;
};

/** The service's logger: static messages, data in fields, never a credential or a payload. */
export type ServiceLogger = Logger & {
  setLevel(level: LogLevel): void;
  /**
   * Before the process ends: resolves when the buffered lines are written, at the latest after a second. Later lines are
   * dropped.
   */
  flush(): Promise<void>;
};

/** Fields whose values are never written, on the first two levels of a line. */
const SECRET_FIELDS = [
  'authorization',
  'x-api-key',
  'token',
  'password',
  'secret',
  'cookie',
  'body',
];

/** Credentials inside other texts: keys of tracectl, bearer tokens, passwords in URLs. */
const SECRET_TEXTS: readonly [RegExp, string][] = [
  [/\bws_[0-9A-Za-z]{16,}/g, '[REDACTED]'],
  [/\b(Bearer|Basic)\s+[^\s"\\]+/gi, '$1 [REDACTED]'],
  [/(:\/\/[^\s/?#:@"]*:)[^\s/?#"]+@/g, '$1[REDACTED]@'],
];

export function createLogger(options: LoggerOptions): ServiceLogger {
  const sink =
    options.write === undefined ? standardError() : { write: options.write, async flush() {} };
  const render = options.encoding === 'console' ? renderConsole : escapeControlsInText;
  const stream: DestinationStream = { write: (line) => sink.write(mask(render(line))) };
  const root = pino(
    {
      level: options.level,
      base: null,
      messageKey: 'message',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: {
        paths: SECRET_FIELDS.flatMap((name) => [`["${name}"]`, `*["${name}"]`]),
        censor: '[REDACTED]',
      },
      serializers: { error: describeError, err: describeError, cause: describeError },
    },
    stream,
  );
  const bound = createLineBound(options.repeated_lines, options.now ?? systemClock.now);
  return {
    debug: (fields, message) => root.debug(fields, message),
    info: bound((fields, message) => root.info(fields, message)),
    warn: bound((fields, message) => root.warn(fields, message)),
    error: bound((fields, message) => root.error(fields, message)),
    setLevel(level) {
      root.level = level;
    },
    flush: () => sink.flush(),
  };
}

/** A logger that adds fields to every line, e.g. `component`. */
export function withFields(logger: Logger, own: Readonly<Record<string, string>>): Logger {
  return {
    debug: (fields, message) => logger.debug({ ...own, ...fields }, message),
    info: (fields, message) => logger.info({ ...own, ...fields }, message),
    warn: (fields, message) => logger.warn({ ...own, ...fields }, message),
    error: (fields, message) => logger.error({ ...own, ...fields }, message),
  };
}

/** Time for the lines that are buffered at the end, in milliseconds. */
const FLUSH_MS = 1000;

type Sink = Pick<ServiceLogger, 'flush'> & { write(line: string): void };

/**
 * Writes asynchronously, so that a stuck reader cannot stall the event loop, and with a bound: when 1 MiB of
 * lines is buffered, new lines are dropped.
 */
function standardError(): Sink {
  // With a smallest length of 0, the stream's `flush` waits for no line.
  const stream = openDestination({ fd: 2, sync: false, minLength: 1, maxLength: 1_048_576 });
  // The reader has closed: its lines cannot be delivered.
  stream.on('error', () => {});
  let hasEnded = false;
  return {
    write(line) {
      if (!hasEnded) stream.write(line);
    },
    async flush() {
      if (hasEnded) return;
      const written = () => new Promise<void>((resolve) => stream.flush(() => resolve()));
      // A reader that does not read loses the rest.
      await waitAtMost(systemClock, 'the log', FLUSH_MS, written).catch(() => {});
      hasEnded = true;
      // Otherwise the process retries the rest synchronously at its end, without end if the reader has closed.
      stream.destroy();
    },
  };
}

function mask(line: string): string {
  let masked = line;
  for (const [pattern, replacement] of SECRET_TEXTS) masked = masked.replace(pattern, replacement);
  return masked;
}

/** The fields of an error, with its causes; with the stack unless it is one of our own error classes. */
function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const isOurs = ['RetryableError', 'PermanentError', 'Refusal'].includes(error.name);
  // Of several failures the first one says why, such as a full disk that all of them met.
  const why: unknown =
    error.cause ?? (error instanceof AggregateError ? error.errors[0] : undefined);
  const cause = why === undefined || depth > 3 ? {} : { cause: describeError(why, depth + 1) };
  const stack = isOurs ? {} : { stack: error.stack };
  return { name: error.name, ...code, message: error.message, ...stack, ...cause };
}
