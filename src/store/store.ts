import { capability } from '../component/capability.ts';
import type { ObservationBatch, SealedBatch } from '../model/batch.ts';
import type { Cost, ObservationDetails } from '../model/details.ts';
import type {
  Instant,
  ObservationError,
  ObservationKind,
  ObservationSource,
  ObservationStatus,
  PayloadField,
  TokenUsage,
  TraceState,
} from '../model/observation.ts';
import type { Query } from '../query/query.ts';
import type { QueueStorage } from '../queue/queue.ts';
import type {
  AuditStore,
  KeyStore,
  OrganizationStore,
  ProjectStore,
  RejectionStore,
  UsageCounters,
  UsageStore,
} from '../tenancy/contract.ts';
import type { UiSessionStore } from '../tenancy/ui-sessions.ts';
import type { AttachmentStore } from './attachments.ts';
import type { Backlog } from './backlog.ts';
import type { TraceChanges } from './changes.ts';
import type { ErasureStore } from './erasures.ts';
import type { GroupStore } from './groups.ts';
import type { CostStore } from './pricing.ts';
import type { RankStore } from './ranking.ts';
import type { RollupReads } from './rollups/reading.ts';
import type { CountedField, CountedPage } from './rows/observed-values.ts';
import type { UsageNode } from './rows/trace-totals.ts';
import type { ScoreStore, ScoreValue } from './scores.ts';
import type { SearchStore } from './search/status.ts';

/**
 * A store: projects, keys, raw batches and the observations made from them. Every reading method takes the project
 * that it reads for. test/contract/store.ts holds both implementations to this contract.
 * All methods reject with `RetryableError('storage_failed')` if the store is unreachable, and with `StoreError` if
 * the request itself cannot be executed.
 */
export type Store = QueueStorage & {
  readonly projects: ProjectStore;
  readonly keys: KeyStore;
  readonly traces: TraceStore;
  readonly ranks: RankStore;
  readonly organization: OrganizationStore;
  readonly usage: UsageStore;
  readonly counters: UsageCounters;
  readonly rejections: RejectionStore;
  readonly audit: AuditStore;
  readonly costs: CostStore;
  readonly backlog: Backlog;
  readonly changes: TraceChanges;
  readonly rollups: RollupReads;
  readonly groups: GroupStore;
  readonly scores: ScoreStore;
  readonly attachments: AttachmentStore;
  readonly erasures: ErasureStore;
  readonly search: SearchStore;
  readonly uiSessions: UiSessionStore;
};

/** Offered by the extensions `sqlite` and `postgres`. */
export const STORE = capability<Store>('store');

/** Points at one event of a stored raw batch. */
export type EventRef = {
  readonly batchId: string;
  /** Position of the item in the stored body. */
  readonly position: number;
};

/** An observation, merged from its events; payload fields are references. */
export type StoredObservation = {
  readonly projectId: string;
  readonly traceId: string;
  readonly id: string;
  readonly parentId: string | null;
  readonly name: string | null;
  readonly kind: ObservationKind | null;
  readonly status: ObservationStatus | null;
  readonly state: TraceState;
  readonly startTime: Instant | null;
  readonly endTime: Instant | null;
  readonly ended: boolean;
  readonly model: string | null;
  readonly usage: TokenUsage | null;
  readonly sessionId: string | null;
  readonly userId: string | null;
  readonly error: ObservationError | null;
  readonly customFields: Readonly<Record<string, string>> | null;
  /** `customFields` as JSON, if the store has it in that form. */
  readonly customFieldsText?: string;
  readonly external: Readonly<Record<string, string>> | null;
  readonly details: ObservationDetails | null;
  /** Decimal digits. */
  readonly version: string;
  readonly source: ObservationSource;
  /** The event that holds each payload field; absent if no event has it. */
  readonly payload: Partial<Record<PayloadField, EventRef>>;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
};

/** An observation, and the events that it has its fields from, each once. */
export type TraceSource = {
  readonly observation: StoredObservation;
  readonly events: readonly EventRef[];
};

/** An observation, and the events that it has its fields from, each once. */
export type ObservationWithEvents = StoredObservation & { readonly events: readonly EventRef[] };

/** Observations of the tree of a trace. */
export type TreePage = {
  /** As `treeJson` makes them, joined with commas. Empty if no texts were wanted. */
  readonly text: Buffer;
  /** Of each observation, in the same order. A node without usage and cost has no other fields than id, parent and start. */
  readonly nodes: readonly UsageNode[];
  readonly nextCursor: string | null;
};

export type StoredTrace = {
  readonly id: string;
  /** The name of the root observation, or of the first one. */
  readonly name: string | null;
  readonly status: ObservationStatus | null;
  readonly state: TraceState;
  readonly startTime: Instant | null;
  readonly endTime: Instant | null;
  /** Milliseconds from start to end. */
  readonly latencyMs: number | null;
  /** Milliseconds from the start to the first token. */
  readonly ttftMs: number | null;
  readonly observationCount: number;
  readonly errorCount: number;
  readonly models: readonly string[];
  readonly sessionId: string | null;
  readonly userId: string | null;
  /** The API key that sent the first event. */
  readonly keyId: string | null;
  readonly source: ObservationSource;
  readonly environment: string | null;
  readonly release: string | null;
  readonly tags: readonly string[];
  readonly customFields: Readonly<Record<string, string>>;
  /** Each call counted once; see `src/store/rows/trace-totals.ts`. */
  readonly usage: TokenUsage | null;
  /** In 10⁻⁹ USD. */
  readonly cost: Omit<Cost, 'source'> | null;
  /** One value for each name (`src/store/rows/score-rows.ts`). */
  readonly scores: Readonly<Record<string, ScoreValue>>;
  /** The beginning of the root's inputs and outputs as text (`src/model/preview.ts`). */
  readonly inputPreview: string | null;
  readonly outputPreview: string | null;
  /** The time of an observation was ignored, because it is far outside of the root's. */
  readonly clockSkew: boolean;
};

export type TraceFilter = {
  readonly limit: number;
  readonly cursor?: string;
  /** Every trace by default. */
  readonly query?: Query;
  /** Oldest first in place of newest first. */
  readonly isAscending?: boolean;
  /** The most traces that a step of a search looks at; `SEARCHED_TRACES` by default. */
  readonly size?: number;
};

/**
 * A page ends at its limit, and before it at `PAGE_BYTES`. A page of filtered traces also ends after the traces that
 * one step looks at: it may be empty although there is a next page.
 */
export type Page<T> = {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
  /** The cursor of a page that begins after one of the items. */
  cursorAfter(item: number): string;
};

export type TracePage = Page<StoredTrace> & {
  /** The time of the last trace that the step looked at; null behind the last trace of all. */
  readonly searchedTo: Instant | null;
  /** Milliseconds of work of the store. */
  readonly spentMs: number;
};

/** About the bytes of a page's rows after which it ends. */
export const PAGE_BYTES = 262_144;

/** Observations as JSON, each on a line. */
export type LinePage = Page<ObservationLine> & { readonly text: Uint8Array };
/** `end`: the byte of the page's text behind the line. */
export type ObservationLine = { readonly traceId: string; readonly end: number };

/** `observation` is null if none was asked for. */
export type RowCursors = { readonly trace: string; readonly observation: string | null };

export type TraceStore = {
  /**
   * Merges the observations into their rows (`src/store/rows`) and keeps the raw batch if the store does not have
   * it, all in one transaction. Writing a batch again changes nothing.
   */
  write(batch: ObservationBatch): Promise<void>;
  /** In the order of their start, within the limits of narrow fields. Rejects with `StoreError` if the cursor is not one of this store. */
  listTraces(projectId: string, filter: TraceFilter): Promise<TracePage>;
  getTrace(projectId: string, traceId: string): Promise<StoredTrace | undefined>;
  /** The traces among those with the ids (at most `MATCHED_IDS`) that match the query. */
  findMatching(projectId: string, query: Query, ids: readonly string[]): Promise<StoredTrace[]>;
  /** In the order of start, then of arrival, within the limits of narrow fields. */
  listObservations(
    projectId: string,
    traceId: string,
    page: { limit: number; cursor?: string },
  ): Promise<Page<StoredObservation>>;
  /** The same order, with the events of each observation. */
  listSources(
    projectId: string,
    traceId: string,
    page: { limit: number; cursor?: string },
  ): Promise<Page<TraceSource>>;
  /** The same order and pages of other lengths, as the tree of a trace has them. */
  listTree(
    projectId: string,
    traceId: string,
    page: { limit: number; cursor?: string; hasText: boolean },
  ): Promise<TreePage>;
  /** The root of a trace, or its first observation; undefined until the trace has a summary. */
  getRoot(projectId: string, traceId: string): Promise<StoredObservation | undefined>;
  /**
   * The observations of several traces, in the order of the traces. If they do not fit into one page, its cursor is one of
   * `listObservations` for the trace of the last item.
   */
  listObservationsOf(
    projectId: string,
    traceIds: readonly string[],
    limit: number,
  ): Promise<Page<StoredObservation>>;
  /** The same observations, with the events of each. */
  listSourcesOf(
    projectId: string,
    traceIds: readonly string[],
    limit: number,
  ): Promise<Page<TraceSource>>;
  /**
   * The same observations as JSON, as `observationJson` makes it without payloads, from a cursor of the first trace on. Undefined if
   * rendering them where they are read would be no cheaper.
   */
  listLinesOf?(
    projectId: string,
    traceIds: readonly string[],
    page: { limit: number; cursor?: string },
  ): Promise<LinePage>;
  /** The values of a field in the matching traces of a step, as `listTraces` finds them. A step reads a bounded number of observations. */
  countValues(projectId: string, field: CountedField, filter: TraceFilter): Promise<CountedPage>;
  /** The cursors behind a trace in `listTraces`, and behind an observation of it. Undefined if one is not stored. */
  rowCursors(
    projectId: string,
    traceId: string,
    observationId?: string,
  ): Promise<RowCursors | undefined>;
  /** The newest one if several traces have the id and no trace is named. */
  getObservation(
    projectId: string,
    id: string,
    traceId?: string,
  ): Promise<ObservationWithEvents | undefined>;
  /** The first ids of traces that begin with a text of lower-case hex digits. A trace may be gone for readers. */
  listTraceIds(projectId: string, beginning: string, limit: number): Promise<string[]>;
  /** Raw batches of the project by id, without those that the store does not have. */
  getBatches(projectId: string, ids: readonly string[]): Promise<SealedBatch[]>;
  /** By id, for the batches that `getBatches` finds: a text that is another one once the stored body changes. */
  batchStamps(projectId: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
};
