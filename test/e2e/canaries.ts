import { randomBytes, randomInt } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';

/** A secret that a test sends, and the parts of it that no store may hold. */
export type Canary = { readonly text: string; readonly needles: readonly string[] };

/** The secrets of one item, by rule, and one below a secret name. */
export type CanarySet = Readonly<Record<CanaryRule, Canary>> & { readonly named: Canary };

type CanaryRule = keyof typeof CANARIES;

const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

function characters(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');
}

/** A generator for each built-in rule; the keys are the names of the rules. */
export const CANARIES = {
  api_keys: () => whole(`sk-proj-x7Q${characters(ALPHANUMERIC, 60)}`),
  cloud_keys: () => whole(`AKIA${characters('ABCDEFGHIJKLMNOPQRSTUVWXYZ234567', 16)}`),
  jwt: () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const payload = part({ sub: randomBytes(12).toString('hex') });
    const signature = randomBytes(32).toString('base64url');
    const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${payload}.${signature}`;
    return { text, needles: [payload, signature] };
  },
  private_keys: () => {
    const lines = Array.from({ length: 3 }, () => randomBytes(48).toString('base64'));
    const text = ['-----BEGIN PRIVATE KEY-----', ...lines, '-----END PRIVATE KEY-----'].join('\n');
    return { text, needles: lines };
  },
  credit_cards: () => whole(withLuhn(`411111${characters('0123456789', 9)}`)),
  email: () => {
    const user = `canary.${randomBytes(8).toString('hex')}`;
    return { text: `${user}@leak.example`, needles: [user] };
  },
  iban: () => whole(withMod97(characters('123456789', 18))),
  phone: () => {
    const digits = characters('23456789', 7);
    return {
      text: `+1 415 ${digits.slice(0, 3)} ${digits.slice(3)}`,
      needles: [`415 ${digits.slice(0, 3)} ${digits.slice(3)}`],
    };
  },
} as const satisfies Readonly<Record<string, () => Canary>>;

/** A set with another secret below a secret name, which tells the fields of an item apart. */
export function withOwnName(set: CanarySet): CanarySet {
  return { ...set, named: namedCanary() };
}

export function canarySet(): CanarySet {
  const made = Object.entries(CANARIES).map(([rule, make]) => [rule, make()] as const);
  return { ...Object.fromEntries(made), named: namedCanary() } as CanarySet;
}

function namedCanary(): Canary {
  return whole(`hunter-${randomBytes(10).toString('hex')}`);
}

function whole(text: string): Canary {
  return { text, needles: [text] };
}

function withLuhn(digits: string): string {
  const sum = [...digits].reduceRight((total, digit, i) => {
    const isDoubled = (digits.length - i) % 2 === 1;
    const value = Number(digit) * (isDoubled ? 2 : 1);
    return total + (value > 9 ? value - 9 : value);
  }, 0);
  return digits + String((10 - (sum % 10)) % 10);
}

/** A German IBAN for 18 digits: the check digits of the number with DE00 at the end. */
function withMod97(digits: string): string {
  const check = 98n - (BigInt(`${digits}131400`) % 97n);
  return `DE${String(check).padStart(2, '0')}${digits}`;
}

/** Bytes in which secrets are searched for, with the place that they are from. */
export type Hay = { readonly where: string; readonly bytes: Buffer };

/** Every secret that is in a place, as `rule in place`. */
export function sightings(hays: Iterable<Hay>, sets: readonly CanarySet[]): Set<string> {
  const found = new Set<string>();
  // Sets share canaries; each text is searched for once.
  const needles = new Map<string, string>();
  for (const [i, set] of sets.entries()) {
    for (const [rule, canary] of Object.entries(set)) {
      for (const needle of canary.needles) {
        if (!needles.has(needle)) needles.set(needle, `${rule} of set ${i}`);
      }
    }
  }
  const labels = new Map<Buffer, string>();
  for (const [text, label] of needles) labels.set(Buffer.from(text), label);
  const search = new NeedleSearch(labels.keys());
  for (const { where, bytes } of hays) {
    for (const needle of search.in(bytes)) found.add(`${labels.get(needle)} in ${where}`);
  }
  return found;
}

const FILTER_BITS = 20;

/**
 * Finds many texts in one pass over the bytes. `Buffer.includes` reads all bytes for each text, which takes seconds for the
 * hundreds of texts of a test.
 */
export class NeedleSearch {
  /** The needles by their first four bytes. */
  readonly #byStart = new Map<number, Buffer[]>();
  /** A slot is set if a needle begins with four bytes of its hash: most places of a file take one look at it. */
  readonly #filter = new Uint8Array(1 << FILTER_BITS);

  constructor(needles: Iterable<Buffer>) {
    for (const needle of needles) {
      const start = needle.readInt32BE(0);
      this.#byStart.set(start, [...(this.#byStart.get(start) ?? []), needle]);
      this.#filter[slotOf(start)] = 1;
    }
  }

  /** The needles that are in the bytes. */
  in(all: Buffer): Set<Buffer> {
    const bytes = withoutRepetitions(all);
    const found = new Set<Buffer>();
    let start = 0;
    for (let end = 0; end < bytes.length; end++) {
      start = (start << 8) | (bytes[end] ?? 0);
      if (end < 3 || this.#filter[slotOf(start)] === 0) continue;
      for (const needle of this.#byStart.get(start) ?? []) {
        const place = end - 3;
        const isHere = bytes.subarray(place, place + needle.length).equals(needle);
        if (isHere) found.add(needle);
      }
    }
    return found;
  }
}

function slotOf(start: number): number {
  return Math.imul(start, 0x9e3779b1) >>> (32 - FILTER_BITS);
}

const PERIOD = 1024 * 1024;

/** The reserve of a store is one random MiB, repeated: whatever is in it is in the first two. */
function withoutRepetitions(bytes: Buffer): Buffer {
  const isRepeated = bytes.subarray(PERIOD).equals(bytes.subarray(0, -PERIOD));
  return bytes.length > 2 * PERIOD && isRepeated ? bytes.subarray(0, 2 * PERIOD) : bytes;
}

/** A value of a database or file, and its inflated form if it is compressed. */
export function* haysOf(where: string, value: unknown): Generator<Hay> {
  if (value === null || value === undefined) return;
  if (!(value instanceof Uint8Array)) {
    yield { where, bytes: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)) };
    return;
  }
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  yield { where, bytes };
  const inflated = inflate(bytes);
  if (inflated !== undefined) yield { where: `${where} (inflated)`, bytes: inflated };
}

function inflate(bytes: Buffer): Buffer | undefined {
  try {
    if (bytes[0] === 0x1f && bytes[1] === 0x8b) return gunzipSync(bytes);
    if (bytes.subarray(0, 4).equals(Buffer.from('28b52ffd', 'hex')))
      return zstdDecompressSync(bytes);
  } catch {
    // A compressed file that is still open has no end.
  }
  return undefined;
}

/** Every file of a directory as it is, and every cell of its databases. */
export function* haysOfDirectory(directory: string): Generator<Hay> {
  for (const entry of readdirSync(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    yield* haysOf(path, readFileSync(path));
    if (!path.endsWith('.db')) continue;
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const tables = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
      for (const { name } of tables) {
        const all = database.prepare(`SELECT * FROM "${String(name)}"`);
        all.setReadBigInts(true);
        for (const row of all.iterate()) {
          for (const [column, cell] of Object.entries(row)) {
            yield* haysOf(
              `${path} ${String(name)}.${column}`,
              typeof cell === 'bigint' ? String(cell) : cell,
            );
          }
        }
      }
    } finally {
      database.close();
    }
  }
}
