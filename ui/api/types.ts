import type { z } from 'zod';
import type { INGESTION } from '../../extensions/admin/ingestion-schemas.ts';
import type { RUNNING_SCHEMAS } from '../../extensions/admin/running-schemas.ts';
import type { SCHEMAS } from '../../extensions/admin/schemas.ts';
import type { UI_SCHEMAS } from '../../extensions/admin/ui-schemas.ts';

/** The shapes of the answers: those of the OpenAPI document, which is made from the same schemas. */
type Managing<Name extends keyof typeof SCHEMAS> = z.infer<(typeof SCHEMAS)[Name]>;
type Reading<Name extends keyof typeof INGESTION> = z.infer<(typeof INGESTION)[Name]>;

export type Organization = Managing<'organization'>;
export type Project = Managing<'project'>;
export type Projects = Managing<'projects'>;
export type ProjectChange = Managing<'projectChange'>;

export type Trace = Reading<'trace'>;
export type Traces = Reading<'traces'>;

/** A trace with every observation, without payloads. */
export type TraceTree = Exclude<Reading<'traceDetail'>, { next_cursor: string | null }>;
export type TreeObservation = TraceTree['observations'][number];
export type Observation = Reading<'observationDetail'>;
export type RawEvent = Reading<'rawEvent'>;
export type Scores = Reading<'scores'>;
export type Facet = Reading<'facet'>;
export type Stats = Reading<'stats'>;

export type Keys = Managing<'keys'>;
export type Key = Managing<'key'>;
export type CreatedKey = Managing<'createdKey'>;
export type Plans = Managing<'plans'>;
export type UsageInForce = Managing<'usageInForce'>;
export type UsageHistory = Managing<'usageHistory'>;
export type Rejections = Managing<'rejections'>;
export type Audit = Managing<'audit'>;
export type Erasures = Managing<'erasures'>;
export type Erasure = Managing<'erasure'>;

export type Session = Reading<'session'>;
export type Sessions = Reading<'sessions'>;
export type SessionDetail = Reading<'sessionDetail'>;
export type SessionTrace = Reading<'sessionTrace'>;
export type User = Reading<'user'>;
export type Users = Reading<'users'>;
export type UserDetail = Reading<'userDetail'>;

type Signing<Name extends keyof typeof UI_SCHEMAS> = z.infer<(typeof UI_SCHEMAS)[Name]>;
export type UiSession = Signing<'session'>;
export type UiSessions = Signing<'uiSessions'>;

type Running<Name extends keyof typeof RUNNING_SCHEMAS> = z.infer<(typeof RUNNING_SCHEMAS)[Name]>;
export type Service = Running<'service'>;
export type Pipelines = Running<'pipelines'>;
export type DeadLetter = Running<'deadLetter'>;
export type DeadLetters = Running<'deadLetters'>;
