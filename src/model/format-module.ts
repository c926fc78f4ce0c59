import type { BatchIndex } from './batch-index.ts';
import type {
  Observation,
  ObservationKind,
  ObservationStatus,
  Payload,
  PayloadField,
} from './observation.ts';
import type { NewParent, Splice, TextSteps, TextVisitor } from './texts.ts';

export type ScanLimits = {
  /** One item more is refused as `too_many_events`. */
  readonly maxItems: number;
  /** Nested JSON containers, the root included; one more is refused as `invalid_json`. Default: 512. */
  readonly maxDepth?: number | undefined;
  /** Fields of a request of OTLP whose repeated messages merge; one more throws `TooManyFields`. Default: `MAX_MERGED_FIELDS`. */
  readonly maxMergedFields?: number | undefined;
};

/** Narrow facts of an item; each is decoded when it is read. A fact that the item does not state is null. */
export type ItemHead = {
  /** As `FormatModule.itemId`. */
  readonly id: string | undefined;
  readonly traceId: string | null;
  readonly parentId: string | null;
  readonly name: string | null;
  readonly kind: ObservationKind | null;
  readonly status: ObservationStatus | null;
  /** Name of the instrumentation scope; null for native events and runs. */
  readonly scope: string | null;
  /**
   * The attribute's value as text: a string's content, otherwise JSON. OTLP: of the span, else of its
   * resource; native events and runs: a member of the effective metadata. Undefined if absent or null.
   */
  attribute(key: string): string | undefined;
};

/** The beginnings of payload fields that are texts, or JSON that begins with the same characters, as many as a preview looks at. */
export type Beginnings = { inputs?: string; outputs?: string };

/** Everything that depends on the wire format. A position is the place of an item in the indexed body. */
export type FormatModule<Index extends BatchIndex> = {
  /**
   * One pass over the inflated body that checks its grammar and nesting and finds the ranges and sizes of items
   * and fields. Throws a `Refusal`: `invalid_json` (not well formed), `invalid_request` (not the format's
   * shape), `too_many_events`. Pure and synchronous, so that it can run in a worker thread.
   */
  scan(bytes: Buffer, limits: ScanLimits): Index;
  /** The item's own id, for its result; undefined if it has no valid id. */
  itemId(index: Index, position: number): string | undefined;
  /** Bytes of the item that count as hourly usage; see processors/quotas/README.md. */
  usageBytes(index: Index, position: number): number;
  /** Bytes that arrived beside the item in the same request, as the item says; they count, too. */
  besideBytes?(index: Index, position: number): number;
  /** The inflated body with only these items, in order; everything around them unchanged. */
  cut(index: Index, keep: readonly number[]): Buffer;
  /** The same without the resources and scopes that only other items have. */
  erase(index: Index, keep: readonly number[]): Buffer;
  /** The item in the common form. Throws a `PermanentError` if it cannot be read. */
  observe(index: Index, position: number, requestIndex: number): Observation;
  /** Payload fields of the item as JSON text. */
  payload(index: Index, position: number, fields: readonly PayloadField[]): Payload;
  /** The beginnings of inputs and outputs that can be read without the JSON of all of them. */
  beginnings?(index: Index, position: number): Beginnings;
  /** The item as JSON text: the received text for JSON formats, OTLP's JSON form for protobuf. */
  source(index: Index, position: number): string;
  /** Visits the texts of the item in the order of the bytes. */
  texts(index: Index, position: number, visitor: TextVisitor): TextSteps;
  /** The same for texts outside the items: resources, scopes, schema URLs, members of the root. */
  sharedTexts(index: Index, visitor: TextVisitor): TextSteps;
  head(index: Index, position: number): ItemHead;
  /** The bytes of a text within a body of this format, for a splice that replaces a text. */
  encodeText(text: string): Buffer;
  /**
   * The body with the splices applied; they are in order and do not overlap. All other bytes stay, except
   * the lengths of the protobuf messages around a splice. The index does not describe the result.
   */
  splice(index: Index, splices: readonly Splice[]): Buffer;
  /**
   * Splices that attach the item to another parent. The common form keeps the original parent's id in
   * `external`: a span's as `parent_span_id`, a native event's or run's as `parent_id`.
   */
  reparent(index: Index, position: number, parent: NewParent): Splice[];
};
