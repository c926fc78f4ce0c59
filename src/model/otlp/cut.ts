import type { OtlpIndex } from '../batch-index.ts';
import { OTLP_STRIDE, OtlpField } from './fields.ts';
import { varintBytes, WireReader } from './wire.ts';

/**
 * The request with only the spans at the positions in `keep`. All other bytes stay, except the lengths of the
 * messages around the removed spans. Resources and scopes stay, even without spans.
 */
export function cutProto(index: OtlpIndex, keep: readonly number[]): Buffer {
  return cutProtoWhere(index, keep, () => false);
}

/** The same without the resources and scopes whose content begins at a place for which `isGone` holds. */
export function cutProtoWhere(
  index: OtlpIndex,
  keep: readonly number[],
  isGone: (start: number) => boolean,
): Buffer {
  const kept = new Set(
    keep.map((position) => index.spans[position * OTLP_STRIDE + OtlpField.START]),
  );
  return cutMessage(index.bytes, 0, index.bytes.length, (tag, start, end) => {
    if (tag !== 10) return undefined;
    if (isGone(start)) return 'drop';
    return cutMessage(index.bytes, start, end, (tag, start, end) => {
      if (tag !== 18) return undefined;
      if (isGone(start)) return 'drop';
      return cutMessage(index.bytes, start, end, (tag, start) =>
        tag === 18 && !kept.has(start) ? 'drop' : undefined,
      );
    });
  });
}

/** The same for JSON: removes the other spans and the commas between them. */
export function cutJson(index: OtlpIndex, keep: readonly number[]): Buffer {
  const { bytes, spans } = index;
  const kept = new Set(keep);
  const parts: Buffer[] = [];
  let copied = 0;
  let position = 0;
  while (position < index.count) {
    // The spans of a scope are in one array.
    const scope = spans[position * OTLP_STRIDE + OtlpField.SCOPE];
    parts.push(bytes.subarray(copied, spans[position * OTLP_STRIDE + OtlpField.START]));
    let isFirst = true;
    do {
      const base = position * OTLP_STRIDE;
      const end = spans[base + OtlpField.END] ?? 0;
      if (kept.has(position)) {
        if (!isFirst) parts.push(COMMA);
        parts.push(bytes.subarray(spans[base + OtlpField.START], end));
        isFirst = false;
      }
      copied = end;
      position++;
    } while (position < index.count && spans[position * OTLP_STRIDE + OtlpField.SCOPE] === scope);
  }
  parts.push(bytes.subarray(copied));
  return Buffer.concat(parts);
}

const COMMA = Buffer.from(',');

/** New content for a field of a message, `drop` to remove it, or undefined to keep it. */
type Change = (tag: number, start: number, end: number) => Buffer | 'drop' | undefined;

function cutMessage(bytes: Buffer, start: number, end: number, change: Change): Buffer {
  const reader = new WireReader(bytes, start, end);
  const parts: Buffer[] = [];
  let copied = start;
  for (;;) {
    const fieldStart = reader.start;
    const tag = reader.nextTag();
    if (tag === 0) break;
    if ((tag & 7) !== 2) {
      reader.skip();
      continue;
    }
    const tagEnd = reader.start;
    const content = reader.message();
    const changed = change(tag, content.start, content.end);
    if (changed === undefined || (changed !== 'drop' && isSame(changed, content))) continue;
    parts.push(bytes.subarray(copied, changed === 'drop' ? fieldStart : tagEnd));
    if (changed !== 'drop') parts.push(varintBytes(changed.length), changed);
    copied = content.end;
  }
  if (parts.length === 0) return bytes.subarray(start, end);
  parts.push(bytes.subarray(copied, end));
  return Buffer.concat(parts);
}

/** Nothing was removed from the message. */
function isSame(changed: Buffer, content: WireReader): boolean {
  return changed.length === content.end - content.start;
}
