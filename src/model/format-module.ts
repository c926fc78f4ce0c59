import type { BatchIndex } from './batch-index.ts';
import type { Observation, Payload, PayloadField } from './observation.ts';

export type ScanLimits = {
  /** One more item than this is a `too_many_events`. */
  readonly maxItems: number;
  /** Levels of nesting in JSON, the root included; one more is an `invalid_json`. 512 where absent. */
  readonly maxDepth?: number;
};

/** What is known about one wire format. Positions are those of the items in the indexed body. */
export type FormatModule<Index extends BatchIndex> = {
  /**
   * One pass over the inflated body: its grammar and nesting, where items and fields stand, their sizes.
   * Throws a `Refusal`: `invalid_json` (not well formed), `invalid_request` (not the format's shape),
   * `too_many_events`. Pure and synchronous, so that it may run in a worker thread.
   */
  scan(bytes: Buffer, limits: ScanLimits): Index;
  /** The item's own id, for its result; undefined where it has none that can be shown. */
  itemId(index: Index, position: number): string | undefined;
  /** Bytes of the item that count toward hourly ingest (design §4 "Quotas"). */
  usageBytes(index: Index, position: number): number;
  /** The inflated body with these items alone, in order; everything around them unchanged. */
  cut(index: Index, keep: readonly number[]): Buffer;
  /** The item in the common form. Throws `PermanentError` where it cannot be read. */
  observe(index: Index, position: number, requestIndex: number): Observation;
  /** Payload fields of the item as JSON text. */
  payload(index: Index, position: number, fields: readonly PayloadField[]): Payload;
  /** The item as JSON text: as sent for JSON formats, OTLP's JSON form for protobuf. */
  source(index: Index, position: number): string;
};
