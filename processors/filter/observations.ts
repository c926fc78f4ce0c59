import type { ReceivedBatch } from '../../src/model/batch.ts';
import type { ItemHead } from '../../src/model/format-module.ts';
import { headOf } from '../../src/model/formats.ts';
import type { Facts } from './conditions.ts';

/** An item of the request with its facts. */
export type Item = { readonly position: number; readonly head: ItemHead };

/**
 * An observation of a request: all items with its id, such as the start and the finish of a native observation.
 * Each fact is that of the first item that states it; the status is that of the last one.
 */
export class RequestObservation implements Facts {
  readonly items: Item[];
  /** Set by the processor. */
  isDropped = false;
  /** The nearest ancestor that is not dropped, null if there is none; undefined until it is searched for. */
  keptAncestor: string | null | undefined;

  /** Read once of each item, because it is compared with that of every item with the same id. */
  traceId: string | null;

  constructor(item: Item, traceId: string | null) {
    this.items = [item];
    this.traceId = traceId;
  }

  get parentId() {
    return this.#first((head) => head.parentId);
  }
  get name() {
    return this.#first((head) => head.name);
  }
  get kind() {
    return this.#first((head) => head.kind);
  }
  get scope() {
    return this.#first((head) => head.scope);
  }
  get status() {
    return this.items.findLast(({ head }) => head.status !== null)?.head.status ?? null;
  }
  attribute(key: string): string | undefined {
    return this.#first((head) => head.attribute(key) ?? null) ?? undefined;
  }

  #first<T>(read: (head: ItemHead) => T | null): T | null {
    for (const { head } of this.items) {
      const value = read(head);
      if (value !== null) return value;
    }
    return null;
  }
}

/** The observations of a request. */
export class RequestObservations {
  /** In the order of their first items. */
  readonly all: RequestObservation[] = [];
  /** The first observation with each id. */
  readonly #byId = new Map<string, RequestObservation>();
  /** Observations with the id of a first one, by trace and id: several traces may have the same id. */
  readonly #inOtherTraces = new Map<string, Map<string, RequestObservation>>();

  /** Adds an item of the batch. An unreadable item is not added, so the filter keeps it. */
  add(batch: ReceivedBatch, position: number): void {
    const item = readableItem(batch, position);
    if (item === undefined) return;
    const { id, traceId } = item.head;
    const known = id === undefined ? undefined : this.find(id, traceId);
    if (known !== undefined) {
      known.items.push(item);
      known.traceId ??= traceId;
      return;
    }
    const observation = new RequestObservation(item, traceId);
    this.all.push(observation);
    if (id === undefined) return;
    if (traceId === null || !this.#byId.has(id)) {
      this.#byId.set(id, observation);
      return;
    }
    const others = this.#inOtherTraces.get(traceId);
    if (others === undefined) this.#inOtherTraces.set(traceId, new Map([[id, observation]]));
    else others.set(id, observation);
  }

  /**
   * An observation by id. An unknown trace (null) on either side matches, as in updates of runs, so only a first
   * observation can have one.
   */
  find(id: string, traceId: string | null): RequestObservation | undefined {
    const first = this.#byId.get(id);
    if (first === undefined || traceId === null) return first;
    if (first.traceId === null || first.traceId === traceId) return first;
    return this.#inOtherTraces.get(traceId)?.get(id);
  }
}

/** Undefined if the facts cannot be decoded, which happens when the facts are read. */
function readableItem(batch: ReceivedBatch, position: number): Item | undefined {
  try {
    const head = headOf(batch.index, position);
    void head.traceId;
    void head.kind;
    return { position, head };
  } catch {
    return undefined;
  }
}
