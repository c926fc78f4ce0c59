import type { DestinationStream } from 'pino';
import { destination as openDestination, pino } from 'pino';
import type { Logger } from '../component/component.ts';
import { renderConsole } from './console.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type LogEncoding = 'console' | 'json';

export type LoggerOptions = {
  readonly level: LogLevel;
  readonly encoding: LogEncoding;
  /** Where lines go; standard error by default. */
  readonly write?: (line: string) => void;
};

/** The service's logger: constant sentences, data in fields, never a credential or a payload. */
export type ServiceLogger = Logger & {
  setLevel(level: LogLevel): void;
  /** Writes out what waits; for the last line before the process ends. */
  flush(): void;
};

/** Names of fields whose value is never written, on the first two levels of a line. */
const SECRET_FIELDS = [
  'authorization',
  'x-api-key',
  'token',
  'password',
  'secret',
  'cookie',
  'body',
];

/** Credentials that came in as part of another text: our keys, bearer tokens, passwords in URLs. */
const SECRET_TEXTS: readonly [RegExp, string][] = [
  [/\bws_[0-9A-Za-z]{16,}/g, '[REDACTED]'],
  [/\b(Bearer|Basic)\s+[^\s"\\]+/gi, '$1 [REDACTED]'],
  [/(:\/\/[^\s/:@"]*:)[^\s/@"]+@/g, '$1[REDACTED]@'],
];

export function createLogger(options: LoggerOptions): ServiceLogger {
  const sink = options.write === undefined ? standardError() : { write: options.write, flush() {} };
  const render = options.encoding === 'console' ? renderConsole : (line: string) => line;
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
  return {
    debug: (fields, message) => root.debug(fields, message),
    info: (fields, message) => root.info(fields, message),
    warn: (fields, message) => root.warn(fields, message),
    error: (fields, message) => root.error(fields, message),
    setLevel(level) {
      root.level = level;
    },
    flush: () => sink.flush(),
  };
}

/** The same log with fields that stand in every line, e.g. `component`. */
export function withFields(logger: Logger, own: Readonly<Record<string, string>>): Logger {
  return {
    debug: (fields, message) => logger.debug({ ...own, ...fields }, message),
    info: (fields, message) => logger.info({ ...own, ...fields }, message),
    warn: (fields, message) => logger.warn({ ...own, ...fields }, message),
    error: (fields, message) => logger.error({ ...own, ...fields }, message),
  };
}

/**
 * Asynchronous, so that a reader that is stuck cannot stall the event loop, and bounded: past a
 * megabyte of waiting lines new ones are dropped rather than kept.
 */
function standardError(): { write(line: string): void; flush(): void } {
  const stream = openDestination({ fd: 2, sync: false, maxLength: 1_048_576 });
  return {
    write: (line) => void stream.write(line),
    flush() {
      try {
        stream.flushSync();
      } catch {
        // The stream is not open yet, or its reader is gone: there is nobody left to tell.
      }
    },
  };
}

function mask(line: string): string {
  let masked = line;
  for (const [pattern, replacement] of SECRET_TEXTS) masked = masked.replace(pattern, replacement);
  return masked;
}

/** An error's facts, its causes included; its stack where it is not one of the errors we throw. */
export function describeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {};
  const isOurs = ['RetryableError', 'PermanentError', 'Refusal'].includes(error.name);
  const cause =
    error.cause === undefined || depth > 3 ? {} : { cause: describeError(error.cause, depth + 1) };
  const stack = isOurs ? {} : { stack: error.stack };
  return { name: error.name, ...code, message: error.message, ...stack, ...cause };
}
