import type { z } from 'zod';
import type { Clock } from '../../src/component/component.ts';
import type { HealthSource } from '../../src/component/health.ts';
import type { Store } from '../../src/store/store.ts';
import type { ChangedBy } from '../../src/tenancy/contract.ts';
import type { ApiCode } from './errors.ts';
import { QUERIES } from './schemas.ts';

/** What an operation works with. */
export type Context = {
  readonly store: Store;
  /** Who asks. */
  readonly by: ChangedBy;
  readonly health: HealthSource;
  readonly clock: Clock;
};

export type OperationRequest<Query, Body> = {
  /** The `:id` of the path; empty where it has none. */
  readonly id: string;
  readonly query: Query;
  readonly body: Body;
};

export type OperationAnswer = {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
};

/** A method and path of the API: served by server.ts, described by openapi.ts. */
export type Operation<Query = unknown, Body = unknown> = {
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** `:id` matches any one segment. */
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  /** Served without a credential. */
  readonly isOpen?: boolean;
  /** False where no store is asked. */
  readonly usesStore?: boolean;
  readonly query: z.ZodType<Query>;
  /** Undefined where the request has none. */
  readonly body: z.ZodType<Body> | undefined;
  /** A request without a body is as one with `{}`. */
  readonly bodyIsOptional?: boolean;
  readonly status: 200 | 201 | 204;
  /** Undefined where the answer has no body. */
  readonly answer: z.ZodType | undefined;
  /** Codes beside those of every operation. */
  readonly codes: readonly ApiCode[];
  run(request: OperationRequest<Query, Body>, context: Context): Promise<OperationAnswer>;
};

type NoQuery = Record<string, never>;

/**
 * Checks an operation against its own schemas' types and hands it on in the common form: the server passes
 * `run` only what `query` and `body` have parsed, so widening the parameter is sound.
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
