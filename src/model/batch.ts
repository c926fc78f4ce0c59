import type { BatchIndex } from './batch-index.ts';
import type { Observation } from './observation.ts';

/** The wire format of a request body. `otlp_proto` and `otlp_json` are the two encodings of OTLP. */
export type Format = 'native' | 'runs' | 'otlp_proto' | 'otlp_json';

/** How the bytes of a body are compressed. */
export type Encoding = 'identity' | 'gzip' | 'zstd';

export type Permission = 'ingest:write' | 'traces:read';

/**
 * Whose data this is. It travels with the batch through every queue, never in an ambient context.
 * `projectId` and `keyId` are public ids (`proj_…`, `key_…`).
 */
export type Tenant = {
  readonly organizationId: string;
  readonly projectId: string;
  readonly keyId: string;
  readonly permissions: readonly Permission[];
};

/** The closed list of reasons to reject one item of a request (spec 7.3, design §4). */
export type RejectionCode =
  | 'invalid_event'
  | 'missing_field'
  | 'invalid_field'
  | 'invalid_custom_fields'
  | 'payload_too_large';

/** One refused item. `reason` names a path and never echoes a value. */
export type Rejection = {
  /** Position of the item in the request, from 0. */
  readonly index: number;
  /** The item's own id, where it is known. */
  readonly id?: string;
  readonly code: RejectionCode;
  readonly reason: string;
};

/** What the accepted part of a batch costs its organization: items, and payload bytes (spec 8). */
export type Usage = { readonly events: number; readonly bytes: number };

/** An answer as it went (or will go) over the wire, kept to be replayed. */
export type StoredAnswer = {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer;
};

/** Set where the request carried an `Idempotency-Key`. */
export type Idempotency = {
  readonly key: string;
  /** SHA-256 over route, content type, encoding and body as received, 32 bytes. */
  readonly requestHash: Buffer;
  /** Renders the answer of this batch; called once, after the last processor and before the append. */
  readonly answer: (batch: SealedBatch) => StoredAnswer;
};

/** Items as a client sent them: scanned, not decoded. The unit that queues keep. */
export type SealedBatch = {
  readonly kind: 'raw';
  /** ULID; `raw_<id>_<index>` is the raw event id of the item at `index`. */
  readonly id: string;
  readonly format: Format;
  readonly tenant: Tenant;
  /** Milliseconds since the epoch, when the request's head arrived. */
  readonly receivedAt: number;
  /** Items the request held, rejected ones included. */
  readonly requestItems: number;
  /** The body that will be (or was) made durable; owns its ArrayBuffer. Replaced when items are cut out. */
  body: Buffer;
  encoding: Encoding;
  /**
   * Where the items stand in the inflated body. Undefined on a batch that comes out of a queue, until
   * `indexOf(batch)` (src/model/formats.ts) has scanned it again.
   */
  index: BatchIndex | undefined;
  /**
   * Request positions of the items that `body` holds, ascending, once items were cut out of it;
   * undefined while item i of the body is item i of the request.
   */
  positions: readonly number[] | undefined;
  /** In order of `index`, at most one an item. Processors add to it with `reject()`. */
  rejections: readonly Rejection[];
  /** Filled by the engine after the last processor of an accepting pipeline. */
  usage: Usage;
  /**
   * Milliseconds since the epoch at which the usage counts, set where it was reserved against limits; the
   * ledger's entry has the same. Unset: `receivedAt`.
   */
  usageAt?: number;
  /**
   * Set where the usage was reserved in counters that can be lost: a ledger whose epoch is another one by now
   * refuses the batch (src/tenancy/shared-ledger.ts).
   */
  usageEpoch?: number;
  /** Set by whoever wrote the usage entry together with the batch. */
  isUsageEntered?: boolean;
  /** Set when its client was told that it failed: whoever has not taken it over yet need not any more. */
  isGivenUp?: boolean;
  readonly idempotency?: Idempotency;
};

/** An accepted item that cannot be normalized: its siblings go on, it goes to the dead letter. */
export type ItemFailure = {
  /** Request position of the item. */
  readonly index: number;
  readonly code: string;
  readonly message: string;
};

/** Normalized observations of one raw batch, in order of their position. */
export type ObservationBatch = {
  readonly kind: 'observations';
  /** The raw batch they come from; exporters that do not hold its payload yet keep it first. */
  readonly source: SealedBatch;
  readonly observations: readonly Observation[];
  /** Items of the batch that no observation could be made of. */
  readonly failures?: readonly ItemFailure[];
};

export type Batch = SealedBatch | ObservationBatch;

/** The raw batch behind any batch. */
export function rawOf(batch: Batch): SealedBatch {
  return batch.kind === 'raw' ? batch : batch.source;
}

/** Number of items a batch still carries: what the counters on the edges count. */
export function itemsOf(batch: Batch): number {
  if (batch.kind === 'observations') return batch.observations.length;
  return batch.requestItems - batch.rejections.length;
}

/** Adds rejections, keeping order and the first one an item got. */
export function reject(batch: SealedBatch, more: readonly Rejection[]): void {
  if (more.length === 0) return;
  const byIndex = new Map<number, Rejection>();
  for (const rejection of [...batch.rejections, ...more]) {
    if (!byIndex.has(rejection.index)) byIndex.set(rejection.index, rejection);
  }
  batch.rejections = [...byIndex.values()].sort((a, b) => a.index - b.index);
}

/** Spec 2.5: unique, sortable, and it finds the stored raw event. `index` is the request position. */
export function rawEventId(batchId: string, index: number): string {
  return `raw_${batchId}_${index}`;
}

/** The inverse of `rawEventId`; undefined when the text is no raw event id. */
export function parseRawEventId(text: string): { batchId: string; index: number } | undefined {
  const match = /^raw_([0-9A-HJKMNP-TV-Z]{26})_(0|[1-9]\d{0,4})$/.exec(text);
  if (match === null) return undefined;
  return { batchId: match[1] ?? '', index: Number(match[2]) };
}
