import type { z } from 'zod';
import { problemOf } from '../../src/control/issue.ts';
import type { ApiCode } from './errors.ts';
import { ApiError } from './errors.ts';

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The JSON of a body; undefined if the body is empty. Throws `invalid_json`. */
export function parseBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(utf8.decode(bytes));
  } catch {
    // The message of JSON.parse would repeat text of the request.
    throw new ApiError('invalid_json', 'The body is not valid JSON in UTF-8.');
  }
  if (typeof value === 'object' && value !== null && Object.hasOwn(value, '__proto__')) {
    throw new ApiError('invalid_request', 'The body has an unknown field.');
  }
  return value;
}

/** Fields whose errors have a code of their own. */
const CODES: Readonly<Record<string, ApiCode>> = {
  name: 'invalid_name',
  plan: 'unknown_plan',
  permissions: 'invalid_permissions',
  retention: 'invalid_retention',
  limits: 'invalid_limits',
};

/** Parses a query or body by its schema. Throws an `ApiError` that names the field, not its value. */
export function parseWith<T>(schema: z.ZodType<T>, given: unknown, part: 'query' | 'body'): T {
  const parsed = schema.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue === undefined) throw new ApiError('invalid_request', `The ${part} is not valid.`);
  if (issue.code === 'unrecognized_keys') {
    throw new ApiError('invalid_request', unknownField(issue, part));
  }
  const [field] = issue.path;
  const path = issue.path.map(String).join('.');
  const isMissing = field !== undefined && valueAt(given, issue.path) === undefined;
  const code = (part === 'body' && !isMissing && CODES[String(field)]) || 'invalid_request';
  const subject = path === '' ? `The ${part}` : `${part}.${path}`;
  const problem = isMissing ? 'is required' : problemOf(issue);
  throw new ApiError(code, `${subject} ${problem}.`);
}

/** The name of a field is text of the client: the message repeats it only if it is a plain word. */
function unknownField(issue: z.core.$ZodIssueUnrecognizedKeys, part: string): string {
  const at = [part, ...issue.path.map(String)].join('.');
  const [key = ''] = issue.keys;
  const shown = /^\w{1,40}$/.test(key) && !key.startsWith('ws_') ? ` "${key}"` : '';
  return `${at} has an unknown field${shown}.`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let at = value;
  for (const step of path) {
    at = typeof at === 'object' && at !== null ? Reflect.get(at, step) : undefined;
  }
  return at;
}
