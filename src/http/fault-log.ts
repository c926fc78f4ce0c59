import type { Clock, Logger, RequestHead } from '../component/component.ts';
import { lineSpacing } from '../component/line-spacing.ts';
import { PermanentError, Refusal, RetryableError } from '../model/errors.ts';

/** Logs why requests are answered 503 although their clients did nothing wrong. */
export type FaultLog = {
  /** A step of the request failed, perhaps after the client was answered. */
  failed(error: unknown, head: RequestHead): void;
  /** The client was answered because its request took longer than the pipeline allows. */
  late(head: RequestHead): void;
};

/** A cause that may pass fails many requests: it is logged once in this time. Milliseconds. */
const INTERVAL_MS = 10_000;

export function faultLog(logger: Logger, clock: Clock): FaultLog {
  const spacing = lineSpacing(clock, INTERVAL_MS);

  /** Codes of errors are a closed list. */
  function passing(code: string, fields: object, message: string): void {
    const suppressed = spacing(code);
    if (suppressed !== undefined) logger.warn({ ...fields, suppressed }, message);
  }

  return {
    failed(error, { path }) {
      // The pipeline counts refusals.
      if (error instanceof Refusal) return;
      if (error instanceof RetryableError) {
        // `late` has logged the requests that were answered before.
        if (error.code === 'too_late') return;
        passing(error.code, { err: error, path }, 'Request failed; its client retries');
      } else if (error instanceof PermanentError) {
        logger.warn({ code: error.code, path }, 'Batch can never be accepted');
      } else logger.error({ err: error, path }, 'Request failed');
    },
    late({ path }) {
      passing('too_late', { path }, 'Request took too long; its client retries');
    },
  };
}
