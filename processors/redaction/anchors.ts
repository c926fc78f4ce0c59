import type { BatchIndex } from '../../src/model/batch-index.ts';
import { Bucket, TableBuilder } from './anchor-tables.ts';
import type { Tables } from './byte-scanner.ts';
import { Cause } from './candidates.ts';
import { KEY_PREFIXES } from './rules/api-keys.ts';
import type { SecretNames } from './secret-names.ts';

/**
 * An anchor is one byte of everything that a rule finds: the separator of an API key's prefix, the `@` of an
 * address, the colon behind a name. The byte scanner finds it by the pair of bytes in front of it, and a regular
 * expression confirms it.
 */
export type Anchors = {
  readonly tables: Tables;
  /** The cause of the anchor at `at`; undefined if it is none after all. */
  confirm(bytes: Buffer, at: number): number | undefined;
};

export function anchorsOf(type: BatchIndex['type'], causes: number, names: SecretNames): Anchors {
  const has = (cause: number) => (causes & cause) !== 0;
  const builder = new TableBuilder();
  const sources: string[] = [];
  if (has(Cause.RUN)) builder.addRuns();
  if (has(Cause.API_KEY)) sources.push(...addKeys(builder));
  if (has(Cause.PRIVATE_KEY)) {
    builder.add(Bucket.OTHER, '-B', 'E', Kind.OTHER);
    sources.push('E(?<=-----BE)(?=GIN )');
  }
  if (has(Cause.JWT)) {
    builder.add(Bucket.OTHER, 'ey', 'J', Kind.OTHER);
    sources.push('J(?<=eyJ)');
  }
  if (has(Cause.EMAIL)) {
    for (const byte of LOCAL_BYTES) builder.add(Bucket.EMAIL, byte, '@', Kind.EMAIL);
    sources.push(EMAIL);
  }
  if (has(Cause.NAME)) sources.push(...addNames(builder, type, names));
  builder.add(Bucket.CAPITALS, '\\u', '0', Kind.ESCAPE);
  const pattern = new RegExp(sources.join('|') || NOTHING, 'y');
  const escapes = escapesOf(causes);
  return {
    tables: builder.tables,
    confirm(bytes, at) {
      if (bytes[at] === ZERO && bytes[at - 1] === LETTER_U) {
        const isEscape = escapes.has(bytes.toString('latin1', at - 2, at + 4));
        return isEscape ? Cause.ESCAPE : undefined;
      }
      if (bytes[at] === PROTO_VALUE && !names.mayEnd(bytes, at)) return undefined;
      const start = Math.max(0, at - BEFORE);
      const end = at + (bytes[at] === AT || type === 'otlp_json' ? FAR_BEHIND : BEHIND);
      pattern.lastIndex = at - start;
      return pattern.test(bytes.toString('latin1', start, end)) ? causeOf(bytes, at) : undefined;
    },
  };
}

/** Kinds of anchors: a pair is that of certain kinds. */
const Kind = { KEY: 2, CAPITALS: 4, OTHER: 8, EMAIL: 16, NAME: 32, ESCAPE: 64 } as const;

const NOTHING = '(?!)';
const ZERO = 0x30;
const LETTER_U = 0x75;
const AT = 0x40;
/** The tag of a KeyValue's value: it follows the key in OTLP protobuf. */
const PROTO_VALUE = 0x12;
/** Bytes that the pattern reads around an anchor; more behind those of addresses and of keys in OTLP JSON. */
const BEFORE = 160;
const BEHIND = 16;
const FAR_BEHIND = 320;

/** The byte says what an anchor is. */
function causeOf(bytes: Buffer, at: number): number {
  switch (bytes[at]) {
    case AT:
      return Cause.EMAIL;
    case 0x4a: // J
      return Cause.JWT;
    case 0x3a: // :
    case 0x3d: // =
    case PROTO_VALUE:
      return Cause.NAME;
    case 0x45: // E
      return Cause.PRIVATE_KEY;
    default:
      return Cause.API_KEY;
  }
}

/** A prefix is found by the separator that ends it, or else by its third character. */
function addKeys(builder: TableBuilder): string[] {
  const separated = KEY_PREFIXES.filter((prefix) => /[-_]$/.test(prefix));
  const others = KEY_PREFIXES.filter((prefix) => !separated.includes(prefix));
  for (const prefix of separated) {
    builder.add(Bucket.KEY, prefix.slice(-3, -1), prefix.slice(-1), Kind.KEY);
  }
  for (const prefix of others) {
    const bucket = prefix.startsWith('S') ? Bucket.CAPITALS : Bucket.OTHER;
    for (const third of prefix[2] ?? '0123456789abcdef') {
      builder.add(bucket, prefix.slice(0, 2), third, Kind.CAPITALS);
    }
  }
  // A slash in a key may be spelled `\/`.
  return [
    `[-_](?<=${separated.join('|')})(?=[\\w+/\\\\-]{10})`,
    ...others.map((prefix) => {
      const start = prefix.slice(0, 3).replace('.', '\\.');
      return `[^](?<=${start}${prefix.length === 2 ? '[0-9a-f]' : ''})${prefix.slice(3)}`;
    }),
  ];
}

/** On both sides escapes may occur; those of ASCII characters are candidates of their own. */
const EMAIL =
  "@(?<=[\\w.%+'\\x80-\\xff-]@)(?=[A-Za-z0-9\\x80-\\xff\\\\][\\w.\\x80-\\xff\\\\-]{0,254}?\\.[A-Za-z\\x80-\\xff\\\\])";

/** Bytes that may be in front of an `@`. */
const LOCAL_BYTES = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).filter(
  (byte) => /[\w.%+'\x80-\xff-]/.test(byte),
);

/** The colon or equals sign behind a name, and for keys of attributes the byte that OTLP has there. */
function addNames(builder: TableBuilder, type: BatchIndex['type'], names: SecretNames): string[] {
  // A quote may be the escape of its code.
  for (const end of [...names.byteEnds, '22', '27']) {
    for (const anchor of ':=') builder.addBeforeClosers(end, anchor, Kind.NAME);
  }
  const close = '(?:["\'`\\]\\s]|\\\\+(?:u002[27])?){0,16}';
  const text = `[:=](?<=(?i:${names.byteSource})${close}.)`;
  switch (type) {
    case 'native':
    case 'runs':
      return [text];
    case 'otlp_proto':
      for (const end of names.byteEnds) builder.add(Bucket.NAME, end, '\x12', Kind.NAME);
      return [text, `\\x12(?<=(?i:${names.byteSource}).)`];
    case 'otlp_json':
      builder.addBeforeClosers('ey', ':', Kind.NAME);
      return [
        text,
        `:(?<="key"\\s{0,8}:)(?=\\s{0,8}"[^"\\\\]{0,256}"(?<=(?i:${names.byteSource})"))`,
      ];
  }
}

/**
 * Escapes of the characters that names, keys, numbers and addresses are made of. Quotes, `&`, `<`, `>` and the
 * grave accent are no part of them, and neither is `+` unless phone numbers are searched: Go and .NET escape
 * those in every text.
 */
function escapesOf(causes: number): ReadonlySet<string> {
  const excluded = (causes & Cause.PHONE) === 0 ? '"&\'<>`+' : '"&\'<>`';
  const codes = Array.from({ length: 0x5f }, (_, i) => i + 0x20).filter(
    (code) => !excluded.includes(String.fromCharCode(code)),
  );
  return new Set(
    codes.flatMap((code) => {
      const hex = code.toString(16);
      return [`\\u00${hex}`, `\\u00${hex.toUpperCase()}`];
    }),
  );
}
