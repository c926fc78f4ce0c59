import { capability } from '../component/capability.ts';
import type { Exchange, RenderRefusal } from '../http/exchange.ts';
import type { Tenant } from '../model/batch.ts';
import type { ScoreEditor } from '../store/scores.ts';
import type { Store } from '../store/store.ts';

/** The client of a reading request, and what it reads. */
export type Reader = {
  /** `keyId` names the client for the bound on reads in progress. */
  readonly tenant: Tenant;
  /** Undefined if the pipeline of an ingestion listener has no store. */
  readonly store: Store | undefined;
  /** Of the pipelines of an ingestion listener; another listener has none. */
  readonly scoreEditors: readonly ScoreEditor[];
  readonly renderRefusal: RenderRefusal;
  /** Awaited before the first payload is read; the request fails if it rejects. */
  readonly beforePayloads?: (of: PayloadSubject) => Promise<void>;
  /** Awaited before something is stored; the request fails if it rejects. */
  readonly beforeWrite?: (of: WrittenSubject) => Promise<void>;
  /** Whether the client may still read the project, for answers that last. The listener may also cut them itself. Absent: it may. */
  readonly isStillAdmitted?: () => Promise<boolean>;
  /** The body of a POST, if the listener has read and parsed it. */
  readonly body?: unknown;
};

/** The subject that a request stores. */
type WrittenSubject = {
  readonly kind: 'score';
  readonly trace: string;
  readonly id: string;
};

/**
 * Whose payloads are read: a trace, the traces of a session or of an export's query, a raw event, which may belong to any, or
 * the bytes of an attachment.
 */
export type PayloadSubject = {
  readonly kind: 'trace' | 'session' | 'export' | 'raw_event' | 'attachment';
  readonly id: string;
};

/**
 * The reading requests of a project, for a listener that authenticates its clients itself and then names the
 * project. They share handlers, turns and memory with the reading requests of the ingestion listeners.
 */
export type ProjectReads = { readonly routes: readonly ProjectRoute[] };

export type ProjectRoute = {
  readonly method: 'GET' | 'POST';
  /** Relative to the project: `/traces/:trace_id`. */
  readonly path: string;
  /** Resolves when the answer is sent or the client is gone. Answers failures itself. */
  handle(exchange: Exchange, reader: Reader): Promise<void>;
};

/** Offered by the service to extensions. */
export const PROJECT_READS = capability<ProjectReads>('project_reads');
