import type { JsonIndex } from '../batch-index.ts';
import { itemRange } from './read.ts';

/**
 * The body with only the items at the positions in `keep` (ascending), with a comma between them. All bytes
 * before the first and behind the last item of an array stay.
 */
export function cutItems(index: JsonIndex, keep: readonly number[]): Buffer {
  const arrays = [
    { first: 0, last: index.posts - 1 },
    { first: index.posts, last: index.count - 1 },
  ].filter(({ first, last }) => first <= last);
  // `patch` may precede `post` in the body; the pieces follow the order of the bytes.
  arrays.sort((a, b) => itemRange(index, a.first)[0] - itemRange(index, b.first)[0]);
  const pieces: Buffer[] = [];
  let copied = 0;
  for (const { first, last } of arrays) {
    pieces.push(index.bytes.subarray(copied, itemRange(index, first)[0]));
    const kept = keep.filter((position) => position >= first && position <= last);
    for (const [i, position] of kept.entries()) {
      if (i > 0) pieces.push(COMMA);
      pieces.push(index.bytes.subarray(...itemRange(index, position)));
    }
    copied = itemRange(index, last)[1];
  }
  pieces.push(index.bytes.subarray(copied));
  return Buffer.concat(pieces);
}

const COMMA = Buffer.from(',');
