import type { OtlpIndex } from '../batch-index.ts';
import { Refusal } from '../errors.ts';
import {
  OTLP_STRIDE,
  OtlpField,
  RESOURCE_STRIDE,
  ResourceField,
  SCOPE_STRIDE,
  ScopeField,
} from './fields.ts';

/**
 * Collects the records of a scan of either encoding. It counts all spans and records `maxItems` of them at most.
 * Resources and scopes without spans have no record, so a body full of them costs no memory.
 */
export class Recorder {
  count = 0;
  /** The start of the current span's record in `spans`, which the scan fills in. */
  base = 0;
  spans = new Uint32Array(OTLP_STRIDE * 128);
  readonly #maxItems: number;
  readonly #items: 'spans' | 'log records';
  readonly #resources: number[] = [];
  readonly #scopes: number[] = [];
  #resource = -1;
  #scope = -1;
  #resourceStart = 0;
  #scopeStart = 0;
  #resourcePlace = -1;
  #scopePlace = -1;

  constructor(maxItems: number, items: 'spans' | 'log records' = 'spans') {
    this.#maxItems = maxItems;
    this.#items = items;
  }

  /** A ResourceSpans starts; `leaveResource` records its end and its resource. */
  enterResource(start: number): void {
    this.#resource = -1;
    this.#resourceStart = start;
    this.#resourcePlace++;
    this.#scopePlace = -1;
  }

  leaveResource(
    end: number,
    resourceStart: number,
    resourceEnd: number,
    flags: number,
    weight: number,
  ): void {
    if (this.#resource < 0) return;
    const base = this.#resource * RESOURCE_STRIDE;
    this.#resources[base + ResourceField.END] = end;
    this.#resources[base + ResourceField.RESOURCE_START] = resourceStart;
    this.#resources[base + ResourceField.RESOURCE_END] = resourceEnd;
    this.#resources[base + ResourceField.FLAGS] = flags;
    this.#resources[base + ResourceField.WEIGHT] = weight;
    this.#resource = -1;
  }

  enterScope(start: number): void {
    this.#scope = -1;
    this.#scopeStart = start;
    this.#scopePlace++;
  }

  leaveScope(end: number, scopeStart: number, scopeEnd: number, weight: number): void {
    if (this.#scope < 0) return;
    const base = this.#scope * SCOPE_STRIDE;
    this.#scopes[base + ScopeField.END] = end;
    this.#scopes[base + ScopeField.SCOPE_START] = scopeStart;
    this.#scopes[base + ScopeField.SCOPE_END] = scopeEnd;
    this.#scopes[base + ScopeField.WEIGHT] = weight;
    this.#scope = -1;
  }

  /** Counts a span. False if it is one too many, which has no record. */
  addSpan(): boolean {
    this.count++;
    if (this.count > this.#maxItems) return false;
    if (this.#resource < 0) {
      this.#resource = this.#resources.length / RESOURCE_STRIDE;
      this.#resources.push(this.#resourceStart, 0, 0, 0, this.#resourcePlace, 0, 0);
    }
    if (this.#scope < 0) {
      this.#scope = this.#scopes.length / SCOPE_STRIDE;
      const { count } = this;
      this.#scopes.push(this.#scopeStart, 0, 0, 0, this.#resource, this.#scopePlace, count - 1, 0);
    }
    this.base = (this.count - 1) * OTLP_STRIDE;
    if (this.base === this.spans.length) {
      const larger = new Uint32Array(this.spans.length * 2);
      larger.set(this.spans);
      this.spans = larger;
    }
    return true;
  }

  /** Fills in the current record of an item. */
  setRange(start: number, end: number, traceId: number, spanId: number, weight: number): void {
    const { spans, base } = this;
    spans[base + OtlpField.START] = start;
    spans[base + OtlpField.END] = end;
    spans[base + OtlpField.TRACE_ID] = traceId;
    spans[base + OtlpField.SPAN_ID] = spanId;
    spans[base + OtlpField.RESOURCE] = this.#resource;
    spans[base + OtlpField.SCOPE] = this.#scope;
    spans[base + OtlpField.WEIGHT] = weight;
  }

  /** The number of the current span's resource. */
  get resource(): number {
    return this.#resource;
  }

  get scope(): number {
    return this.#scope;
  }

  /** Throws if there are more spans than allowed. */
  checkCount(): void {
    if (this.count <= this.#maxItems) return;
    throw new Refusal(
      'too_many_events',
      `The request holds ${this.count} ${this.#items}; at most ${this.#maxItems} are accepted.`,
    );
  }

  /** The current state, to which `restore` returns if a key is repeated. */
  mark(): RecorderMark {
    return {
      count: this.count,
      resources: this.#resources.length,
      scopes: this.#scopes.length,
      resource: this.#resource,
      scope: this.#scope,
      resourcePlace: this.#resourcePlace,
      scopePlace: this.#scopePlace,
    };
  }

  restore(mark: RecorderMark): void {
    this.count = mark.count;
    this.#resources.length = mark.resources;
    this.#scopes.length = mark.scopes;
    this.#resource = mark.resource;
    this.#scope = mark.scope;
    this.#resourcePlace = mark.resourcePlace;
    this.#scopePlace = mark.scopePlace;
  }

  index(type: OtlpIndex['type'], bytes: Buffer): OtlpIndex {
    return {
      type,
      bytes,
      count: this.count,
      spans: this.spans.subarray(0, this.count * OTLP_STRIDE),
      resources: Uint32Array.from(this.#resources),
      scopes: Uint32Array.from(this.#scopes),
    };
  }
}

export type RecorderMark = {
  readonly count: number;
  readonly resources: number;
  readonly scopes: number;
  readonly resource: number;
  readonly scope: number;
  readonly resourcePlace: number;
  readonly scopePlace: number;
};
