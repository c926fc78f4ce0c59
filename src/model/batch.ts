import type { BatchIndex } from './batch-index.ts';
import type { BatchChanges } from './changes.ts';
import type { Observation } from './observation.ts';
import type { Rejection } from './rejection.ts';

/** The wire format of a request body. `otlp_proto` and `otlp_json` are the two encodings of OTLP. */
export type Format = 'native' | 'runs' | 'otlp_proto' | 'otlp_json';

/** How the bytes of a body are compressed. */
export type Encoding = 'identity' | 'gzip' | 'zstd';

/** The same for a body as it is sent. A body in `deflate` (zlib, RFC 1950) becomes one in gzip once it is inflated. */
export type SentEncoding = Encoding | 'deflate';

export type Permission = 'ingest:write' | 'traces:read';

/**
 * The owner of data. The tenant is part of the batch, never of an ambient context, so that it survives every
 * queue. `projectId` and `keyId` are public ids (`proj_…`, `key_…`).
 */
export type Tenant = {
  readonly organizationId: string;
  readonly projectId: string;
  readonly keyId: string;
  readonly permissions: readonly Permission[];
};

/** The cost of a batch for its organization: accepted items and their payload bytes (spec 8). */
export type Usage = { readonly events: number; readonly bytes: number };

/** Usage as the ledger enters it. A queue stores neither `at` nor `epoch`: it has entered the usage. */
export type LedgerUsage = Usage & {
  /**
   * Milliseconds since the epoch at which the usage counts, if it was reserved against limits. Undefined: when
   * the batch was received.
   */
  readonly at?: number;
  /**
   * Epoch of the counters that hold the reservation, if they can be lost. A ledger of another epoch refuses the
   * batch (src/tenancy/shared-ledger.ts).
   */
  readonly epoch?: number;
};

type BatchHead = {
  /** ULID; `raw_<id>_<index>` is the raw event id of the item at `index`. */
  readonly id: string;
  readonly format: Format;
  readonly tenant: Tenant;
  /** Milliseconds since the epoch, when the request's head arrived. */
  readonly receivedAt: number;
  /** Items that the request held, rejected and dropped ones included. */
  readonly requestItems: number;
};

/**
 * A scanned request. The request owns it until it is sealed: processors of an accepting pipeline change it, one
 * after the other and only through the verbs (src/model/verbs.ts). Item i of the index is item i of the
 * request; rejected and dropped items leave the bytes when the batch is sealed.
 */
export type ReceivedBatch = BatchHead & {
  readonly kind: 'received';
  /** The body as received. Once an item was edited: `index.bytes`, uncompressed. Owns its ArrayBuffer. */
  readonly body: Buffer;
  readonly encoding: Encoding;
  /** The items of the inflated body. */
  readonly index: BatchIndex;
  /** Items that are neither rejected nor dropped. */
  readonly items: number;
  /** At most one per item, in the order in which processors rejected them. */
  readonly rejections: readonly Rejection[];
  /** The changes of the verbs; undefined for an unchanged batch. */
  readonly changes: BatchChanges | undefined;
};

/**
 * Items as they are made durable: not decoded, without rejected and dropped items, usage and answer fixed.
 * Read-only and shared: every connector, exporter and queue behind a pipeline gets the same object.
 */
export type SealedBatch = BatchHead & {
  readonly kind: 'raw';
  /** Owns its ArrayBuffer. */
  readonly body: Buffer;
  readonly encoding: Encoding;
  /** Items that the body holds. */
  readonly items: number;
  /** Request positions of the items, ascending; undefined if item i of the body is item i of the request. */
  readonly positions: readonly number[] | undefined;
  /**
   * The positions of erased items, ascending, in the body as it was first stored: rows refer to items by these positions.
   * Undefined if no item was erased.
   */
  readonly gaps?: readonly number[];
  /** In order of `index`, at most one per item. */
  readonly rejections: readonly Rejection[];
  readonly usage: LedgerUsage;
};

/** An accepted item that cannot be normalized: it becomes a dead letter, its siblings are delivered. */
export type ItemFailure = {
  /** Request position of the item. */
  readonly index: number;
  readonly code: string;
  readonly message: string;
};

/** Normalized observations of one sealed batch, in order of their position. Read-only and shared, too. */
export type ObservationBatch = {
  readonly kind: 'observations';
  /** The batch they come from; an exporter that does not hold its payload yet stores it first. */
  readonly source: SealedBatch;
  readonly observations: readonly Observation[];
  /** Items of the batch that could not be read as an observation. */
  readonly failures?: readonly ItemFailure[];
};

/** The input of exporters, connectors and queues. */
export type Batch = SealedBatch | ObservationBatch;

/** The sealed batch behind any batch. */
export function rawOf(batch: Batch): SealedBatch {
  return batch.kind === 'raw' ? batch : batch.source;
}

/** Number of items that a batch still carries: the counters on the edges count them. */
export function itemsOf(batch: Batch | ReceivedBatch): number {
  return batch.kind === 'observations' ? batch.observations.length : batch.items;
}

/** Spec 2.5: unique, sortable, and it finds the stored raw event. `index` is the request position. */
export function rawEventId(batchId: string, index: number): string {
  return `raw_${batchId}_${index}`;
}

/** The inverse of `rawEventId`; undefined if the text is no raw event id. */
export function parseRawEventId(text: string): { batchId: string; index: number } | undefined {
  const match = /^raw_([0-9A-HJKMNP-TV-Z]{26})_(0|[1-9]\d{0,4})$/.exec(text);
  if (match === null) return undefined;
  return { batchId: match[1] ?? '', index: Number(match[2]) };
}

/** Whether the bytes of the batch were freed; see `freeBatch` in formats.ts. */
export function isFreed({ body }: Pick<SealedBatch, 'body'>): boolean {
  return body.buffer instanceof ArrayBuffer && body.buffer.detached;
}

/** The body of the batch. Throws if its bytes were freed: they would read as an empty body, which is valid in some formats. */
export function bodyOf(batch: Pick<SealedBatch, 'id' | 'body'>): Buffer {
  if (isFreed(batch)) throw new Error(`the bytes of batch ${batch.id} were freed`);
  return batch.body;
}
