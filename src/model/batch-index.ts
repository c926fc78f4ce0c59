import type { Rejection } from './rejection.ts';

/**
 * The places of the items of a body: byte ranges in typed arrays, found by one pass over the inflated bytes without
 * building strings or objects. An index can be made in a worker thread and moved (its arrays are transferable), so a
 * large body never blocks the event loop.
 */

/** An index over a native or runs body. Ranges are [start, end) byte offsets into `bytes`. */
export type JsonIndex = {
  readonly type: 'native' | 'runs';
  /** The inflated body. */
  readonly bytes: Buffer;
  /** Items found; an index never records more than its limit, but counts all of them. */
  readonly count: number;
  /**
   * `count` records of `2 * (fields + 1)` numbers: the item's own range, then the range of every field of
   * the pattern (src/model/native/fields.ts, src/model/runs/fields.ts); 0,0 for an absent field.
   * A repeated key keeps its last range.
   */
  readonly ranges: Uint32Array;
  /** Numbers per record of `ranges`. */
  readonly stride: number;
  /** Compact JSON length of each of the fields whose size counts; `count * sized` numbers. */
  readonly sizes: Uint32Array;
  /** For runs: items at positions below this are from `post`, the others from `patch`. */
  readonly posts: number;
  /** `FormatModule.besideBytes` of each item, if they were computed together with the index. */
  readonly besideBytes?: Float64Array;
};

/** An index over an OTLP export request, protobuf or JSON. */
export type OtlpIndex = {
  readonly type: 'otlp_proto' | 'otlp_json';
  /** The inflated body. */
  readonly bytes: Buffer;
  /** Spans found. */
  readonly count: number;
  /** Per span `OTLP_STRIDE` numbers; see `OtlpField` in src/model/otlp/fields.ts. */
  readonly spans: Uint32Array;
  /** Per resource: the range of its ResourceSpans message or object, and of its `resource` in it. */
  readonly resources: Uint32Array;
  /** Per scope: the range of its ScopeSpans message or object, of its `scope` in it, and its resource's number. */
  readonly scopes: Uint32Array;
  /** A known field's name is spelled with escapes somewhere (only JSON): JSON.parse is not to be trusted. */
  readonly escapedKeys?: boolean;
  /** An attribute's `key` is not the first member of its object somewhere; in protobuf, its value is not directly behind it. */
  readonly lateKeys?: boolean;
  /** The rejections of the rules, if they were computed together with the index. */
  readonly verdicts?: OtlpVerdicts;
};

/** Rejections of an index by position: for ids and sizes, and for custom fields. */
type OtlpVerdicts = {
  readonly fields: readonly Rejection[];
  readonly customFields: readonly Rejection[];
};

export type BatchIndex = JsonIndex | OtlpIndex;
