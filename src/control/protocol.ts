import type { z } from 'zod';
import type { Logger } from '../component/component.ts';
import { problemOf } from './issue.ts';

/**
 * The protocol of the control socket: one request and one response, each a JSON object on one line. Then the
 * connection ends. A client that ends its side before its command begins has given up: the command does not run.
 *
 *   {"command":"keys.create","arguments":{"project":"proj_…"}}
 *   {"result":{…}}   or   {"error":{"code":"unknown_project","message":"…"}}
 */
export type ControlRequest = {
  readonly command: string;
  readonly arguments: Readonly<Record<string, unknown>>;
};

export type ControlResponse =
  | { readonly result: unknown }
  | { readonly error: { readonly code: string; readonly message: string } };

export const MAX_REQUEST_BYTES = 64 * 1024;
/** A part of an export may be one row with the largest payloads, as JSON in JSON. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;

/** The failure of a command: a code for programs, and a message for users. */
export class ControlError extends Error {
  override readonly name = 'ControlError';
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The response to a command: its result, or its error. Never rejects. A fault of the program is logged: the caller reads its message alone. */
export async function responseOf(
  run: () => Promise<unknown>,
  logger: Pick<Logger, 'error'>,
): Promise<ControlResponse> {
  try {
    return { result: (await run()) ?? null };
  } catch (error) {
    if (!isOfCaller(error)) logger.error({ err: error }, 'Control command failed');
    return failure(error);
  }
}

export function failure(error: unknown): ControlResponse {
  const code = isOfCaller(error) ? error.code : 'internal';
  return { error: { code, message: error instanceof Error ? error.message : String(error) } };
}

/** The named classes tell the caller about its command. Any other error is a fault of the program. */
function isOfCaller(error: unknown): error is Error & { code: string } {
  const named = ['ControlError', 'StoreError', 'RetryableError', 'PermanentError'];
  return error instanceof Error && named.includes(error.name);
}

/** Parses the arguments of a command by its schema. Throws a `ControlError`. */
export function readArguments<S extends z.ZodType>(schema: S, args: unknown): z.output<S> {
  const parsed = schema.safeParse(args);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = issue?.path.join('.') ?? '';
  const problem = issue === undefined ? 'invalid arguments' : problemOf(issue);
  throw new ControlError('invalid_request', `${path} ${problem}`.trimStart());
}
