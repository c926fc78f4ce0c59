import { ATTRIBUTES_OF_FIELDS, type KeyOfFields, keyOfFieldsAt } from './custom-fields.ts';
import { WireReader } from './wire.ts';

/**
 * The path of the first `custom_fields` in the protobuf message at [start, end), whose attributes have this tag, that is
 * neither an object nor null; undefined if all are right. It decodes no value, so its time follows the bytes.
 */
export function wrongFieldsInWire(
  bytes: Buffer,
  start: number,
  end: number,
  attributesTag: number,
): string | undefined {
  const reader = new WireReader(bytes, start, end);
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag !== attributesTag) {
      reader.skip();
      continue;
    }
    const { key, value } = keyValueOf(reader.message(), ATTRIBUTES_OF_FIELDS);
    if (key !== undefined && value !== undefined && isWrong(value, key)) return key.path;
  }
  return undefined;
}

type Found = { readonly key: KeyOfFields | undefined; readonly value: WireReader | undefined };
const NOTHING: Found = { key: undefined, value: undefined };

/** The key, if it is one of `keys`, and the value of an attribute or an entry. The last of repeated fields counts. */
function keyValueOf(reader: WireReader, keys: readonly KeyOfFields[]): Found {
  // The key, its tag and its length. A body has an empty attribute in every two bytes.
  if (reader.end - reader.start < SHORTEST_KEY + 2) return NOTHING;
  let key: KeyOfFields | undefined;
  let value: WireReader | undefined;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 10) {
      const text = reader.message();
      key = keyOfFieldsAt(keys, reader.bytes, text.start, text.end);
    } else if (tag === 18) {
      value = reader.message();
    } else {
      reader.skip();
    }
  }
  return key === undefined ? NOTHING : { key, value };
}

const SHORTEST_KEY = Math.min(...ATTRIBUTES_OF_FIELDS.map(({ key }) => key.length));

/** The value of this key is, or has within it, a `custom_fields` of a wrong type. */
function isWrong(value: WireReader, { within }: KeyOfFields): boolean {
  let kind = 0;
  let content: WireReader | undefined;
  for (let tag = value.nextTag(); tag !== 0; tag = value.nextTag()) {
    // The last field counts, as in every oneof.
    if (VALUE_TAGS.has(tag)) kind = tag;
    if (tag === KVLIST_TAG) content = value.message();
    else value.skip();
  }
  if (within.length === 0) return kind !== 0 && kind !== KVLIST_TAG;
  if (kind !== KVLIST_TAG || content === undefined) return false;
  let last = NOTHING;
  for (let tag = content.nextTag(); tag !== 0; tag = content.nextTag()) {
    if (tag !== ENTRY_TAG) {
      content.skip();
      continue;
    }
    const found = keyValueOf(content.message(), within);
    if (found.key !== undefined) last = found;
  }
  const { key, value: inner } = last;
  return key !== undefined && inner !== undefined && isWrong(inner, key);
}

const KVLIST_TAG = 50;
const ENTRY_TAG = 10;
const VALUE_TAGS: ReadonlySet<number> = new Set([10, 16, 24, 33, 42, KVLIST_TAG, 58]);
