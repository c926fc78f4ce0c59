import { skipSpace, skipValue, textOf } from '../json/grammar.ts';
import type { SpanFacts } from './facts.ts';
import {
  addDroppedCount,
  addOwnEntries,
  ownAttributes,
  RESOURCE_PREFIX,
  resourceEntries,
  scopeEntries,
  spanEntries,
} from './payload.ts';
import type { OtlpResource, OtlpScope, OtlpSpan } from './span.ts';

/**
 * The size of a span's metadata, without making the metadata: a resource or scope of megabytes is in that of all its spans. A resource
 * and a scope are measured once, and a span then costs no more than its own attributes.
 *
 *   resource                        a key that the span has too gets a prefix
 *   its dropped count, scope        replace a member of the resource with the same key
 *   attributes of the span          replace any other member
 *   fields of the span              only if no member has the key
 */

/** The members of a resource. */
export type ResourceMembers = {
  /** Bytes of all members without a prefix, each with a comma. */
  readonly bytes: number;
  /** Bytes of the value and place of each member, by key. */
  readonly values: ReadonlyMap<string, readonly [bytes: number, place: number]>;
  /** The text of its count of dropped attributes, by key. */
  readonly dropped: ReadonlyMap<string, string>;
};

/** The members that the spans of a scope have in common. */
export type SharedMembers = {
  readonly resource: ResourceMembers;
  /** Bytes of all members of resource and scope without a prefix, each with a comma. */
  readonly bytes: number;
  /** Bytes of each member that replaces one of the resource, with its comma, by key. */
  readonly fixed: ReadonlyMap<string, number>;
};

export function resourceMembers(resource: OtlpResource): ResourceMembers {
  const values = new Map<string, readonly [bytes: number, place: number]>();
  let bytes = 0;
  for (const [key, text] of resourceEntries(resource)) {
    const ofValue = compactBytes(text);
    values.set(key, [ofValue, values.size]);
    bytes += memberBytes(key, ofValue);
  }
  const dropped = new Map<string, string>();
  addDroppedCount(dropped, resource);
  return { bytes, values, dropped };
}

export function sharedMembers(resource: ResourceMembers, scope: OtlpScope): SharedMembers {
  const fixed = new Map<string, number>();
  let { bytes } = resource;
  // No key of a scope is that of the count.
  for (const [key, text] of [...resource.dropped, ...scopeEntries(scope)]) {
    const ofMember = memberBytes(key, compactBytes(text));
    fixed.set(key, ofMember);
    bytes += ofMember - plainBytes(resource, key);
  }
  return { resource, bytes, fixed };
}

/** The compact bytes of the metadata of a span with these facts. O(size of the span). */
export function metadataBytes(span: OtlpSpan, facts: SpanFacts, shared: SharedMembers): number {
  const own = ownAttributes(span);
  const members = new ChangedMembers(shared);
  const renamed = [...own.keys()].filter((key) => shared.resource.values.has(key));
  for (const key of renamed) members.removeOfResource(key);
  for (const key of renamed) members.rename(key, own);
  const entries = new Map<string, string>();
  addOwnEntries(entries, own, span, facts);
  for (const [key, text] of entries) members.set(key, memberBytes(key, compactBytes(text)));
  for (const [key, text] of spanEntries(span)) {
    if (!members.has(key)) members.set(key, memberBytes(key, compactBytes(text)));
  }
  return members.jsonBytes;
}

/** Shared members with the changes of one span. */
class ChangedMembers {
  readonly #shared: SharedMembers;
  /** Bytes by key; 0 for a member that is gone. */
  readonly #changed = new Map<string, number>();
  #bytes: number;

  constructor(shared: SharedMembers) {
    this.#shared = shared;
    this.#bytes = shared.bytes;
  }

  /** With braces, and a comma less than members. */
  get jsonBytes(): number {
    return this.#bytes === 0 ? 2 : this.#bytes + 1;
  }

  has(key: string): boolean {
    return this.#bytesOf(key) > 0;
  }

  set(key: string, bytes: number): void {
    this.#bytes += bytes - this.#bytesOf(key);
    this.#changed.set(key, bytes);
  }

  /** Removes a member of the resource, unless another one has replaced it. */
  removeOfResource(key: string): void {
    if (!this.#shared.fixed.has(key)) this.set(key, 0);
  }

  /** Adds a member of the resource under its key with the prefix, unless a later member has that key. */
  rename(key: string, own: ReadonlyMap<string, unknown>): void {
    const { resource, fixed } = this.#shared;
    const value = resource.values.get(key);
    const prefixed = RESOURCE_PREFIX + key;
    if (value === undefined || fixed.has(prefixed)) return;
    const [bytes, place] = value;
    const [, placeOfOther] = resource.values.get(prefixed) ?? [0, -1];
    if (placeOfOther < place || own.has(prefixed)) this.set(prefixed, memberBytes(prefixed, bytes));
  }

  #bytesOf(key: string): number {
    const { resource, fixed } = this.#shared;
    return this.#changed.get(key) ?? fixed.get(key) ?? plainBytes(resource, key);
  }
}

/** Bytes of a member of the resource without a prefix; 0 if it has none. */
function plainBytes({ values }: ResourceMembers, key: string): number {
  const value = values.get(key);
  return value === undefined ? 0 : memberBytes(key, value[0]);
}

/** With the colon and a comma. */
function memberBytes(key: string, ofValue: number): number {
  return compactBytes(JSON.stringify(key)) + ofValue + 2;
}

/** White space, or an escape. */
const MAY_BE_SHORTER = /[ \t\r\n\\]/;

/** The size without white space, which an input in JSON text may have. */
export function compactBytes(json: string): number {
  if (!MAY_BE_SHORTER.test(json)) return Buffer.byteLength(json);
  const text = textOf(Buffer.from(json), Number.MAX_SAFE_INTEGER);
  return skipValue(text, skipSpace(text, 0), 0) - text.saved;
}
