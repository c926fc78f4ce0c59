import type { z } from 'zod';
import type { Clock } from '../../src/component/component.ts';
import type { HealthSource } from '../../src/component/health.ts';
import type { Exchange } from '../../src/http/exchange.ts';
import type { Store } from '../../src/store/store.ts';
import type { ChangedBy } from '../../src/tenancy/contract.ts';
import type { UiSession } from '../../src/tenancy/ui-sessions.ts';
import type { ApiCode } from './errors.ts';
import type { Json } from './json-schema.ts';
import type { PayloadAudit } from './payload-audit.ts';
import { QUERIES } from './schemas.ts';
import type { UiRequest } from './ui-access.ts';

/** The context of an operation. */
export type Context = {
  readonly store: Store;
  /** The actor, for the audit log. */
  readonly by: ChangedBy;
  readonly health: HealthSource;
  readonly audit: PayloadAudit;
  readonly clock: Clock;
};

type OperationRequest<Query, Body> = {
  /** The `:id` of the path; empty if the path has none. */
  readonly id: string;
  /** Every parameter of the path, decoded. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Query;
  readonly body: Body;
  /** The session of the web UI that the request belongs to. */
  readonly session: UiSession | undefined;
  readonly client: UiRequest;
  /** Takes the request and its answer over from the server: the operation writes the answer itself. */
  takeOver(): Exchange;
};

export type OperationAnswer = {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string | string[]>>;
};

/** For an operation that took the request over and has answered it. */
export const ANSWERED: OperationAnswer = {};

/** A method and path of the API. server.ts serves it, openapi.ts describes it. */
export type Operation<Query = unknown, Body = unknown> = {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `:id` matches one segment. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  /** Served without a credential. */
  readonly isOpen?: boolean;
  /** False if the operation does not use the store. */
  readonly usesStore?: boolean;
  readonly query: z.ZodType<Query>;
  /** Describes the query in the document in place of its schema. */
  readonly parameters?: readonly Json[];
  /** Undefined if the request has no query. */
  readonly body: z.ZodType<Body> | undefined;
  /** An absent body is read as `{}`. */
  readonly bodyIsOptional?: boolean;
  readonly status: 200 | 201 | 202 | 204;
  /** Undefined if the answer has no body. */
  readonly answer: z.ZodType | undefined;
  /** Media types of an answer that is not JSON. */
  readonly media?: readonly string[];
  /** Codes in addition to those of every operation. */
  readonly codes: readonly ApiCode[];
  run(request: OperationRequest<Query, Body>, context: Context): Promise<OperationAnswer>;
};

type NoQuery = Record<string, never>;

/**
 * Checks an operation against the types of its own schemas and returns it in the common form. The server passes
 * `run` only values that `query` and `body` have parsed, so widening the parameter is sound.
 */
export function operation<Query = NoQuery, Body = undefined>(
  given: Omit<Operation<Query, Body>, 'query' | 'body' | 'codes'> & {
    readonly query?: z.ZodType<Query>;
    readonly body?: z.ZodType<Body>;
    readonly codes?: readonly ApiCode[];
  },
): Operation {
  const whole = { query: QUERIES.none, body: undefined, codes: [], ...given };
  return whole as unknown as Operation;
}
