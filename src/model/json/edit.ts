import type { JsonIndex } from '../batch-index.ts';
import type { NewParent, Splice } from '../texts.ts';
import { COMMON } from './fields.ts';
import { endOf, itemRange, startOf, stringAt } from './read.ts';

/** `FormatModule.splice` for every format in JSON. */
export function spliceJson(
  { bytes }: { readonly bytes: Buffer },
  splices: readonly Splice[],
): Buffer {
  const pieces: Uint8Array[] = [];
  let copied = 0;
  for (const splice of splices) {
    if (splice.start < copied || splice.end < splice.start) {
      throw new RangeError('Splices overlap or are not in order.');
    }
    pieces.push(bytes.subarray(copied, splice.start), splice.bytes);
    copied = splice.end;
  }
  pieces.push(bytes.subarray(copied));
  return Buffer.concat(pieces);
}

/** `FormatModule.encodeText`: the bytes between the quotes of a JSON string. */
export function encodeJsonText(text: string): Buffer {
  return Buffer.from(JSON.stringify(text).slice(1, -1));
}

/** The member of a native event or run that keeps the id of its dropped parent. */
export const ORIGINAL_PARENT_FIELD = 'tracectl_original_parent_id';

type Slot = { readonly slot: number; readonly name: string };

/** `FormatModule.reparent` for native events and runs; `parents` are the members that may name the parent. */
export function reparentItem(
  parents: readonly Slot[],
  original: number,
  index: JsonIndex,
  position: number,
  { parentId, originalParentId, traceId }: NewParent,
): Splice[] {
  const changes: (Slot & { readonly value: string | null })[] = parents
    .filter(({ slot }) => startOf(index, position, slot) !== 0)
    .map((parent) => ({ ...parent, value: parentId }));
  const [firstParent] = parents;
  if (changes.length === 0 && firstParent !== undefined) {
    changes.push({ ...firstParent, value: parentId });
  }
  // After several changes, the original id is the one that the client sent.
  if (!stringAt(index, position, original)) {
    changes.push({ slot: original, name: ORIGINAL_PARENT_FIELD, value: originalParentId });
  }
  if (traceId !== null && !stringAt(index, position, COMMON.trace_id)) {
    changes.push({ slot: COMMON.trace_id, name: 'trace_id', value: traceId });
  }
  return membersSet(index, position, changes);
}

/** Replaces the values of members; missing members are added behind all others. */
function membersSet(
  index: JsonIndex,
  position: number,
  changes: readonly (Slot & { readonly value: string | null })[],
): Splice[] {
  const splices: Splice[] = [];
  let added = '';
  for (const { slot, name, value } of changes) {
    const json = JSON.stringify(value);
    const start = startOf(index, position, slot);
    if (start === 0) added += `,"${name}":${json}`;
    else splices.push({ start, end: endOf(index, position, slot), bytes: Buffer.from(json) });
  }
  splices.sort((a, b) => a.start - b.start);
  // An item with a parent also has an id, so a member precedes the comma.
  const last = itemRange(index, position)[1] - 1;
  if (added !== '') splices.push({ start: last, end: last, bytes: Buffer.from(added) });
  return splices;
}
