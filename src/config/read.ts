import { closeSync, openSync, readSync } from 'node:fs';
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import type { Issue } from './config.ts';
import type { ConfigNode, MapEntry, Scalar } from './tree.ts';

/** A larger file is not a configuration, which people write by hand. */
const MAX_FILE_BYTES = 1024 * 1024;
/** Bounds the values after aliases are followed: a chain of aliases can multiply a small file. */
const MAX_VALUES = 100_000;
const MAX_DEPTH = 64;

/**
 * Reads one YAML document into a tree. Every problem is added to `issues`; the tree then has the values that could
 * be read. Undefined for an empty document.
 *
 * `label` names the text in messages (`config.yaml`); without it, values have no place.
 */
export function readYaml(
  text: string,
  label: string | undefined,
  issues: Issue[],
): ConfigNode | undefined {
  const lines = new LineCounter();
  const placeOf = (offset: number | undefined): string | undefined => {
    if (label === undefined || offset === undefined) return label;
    const { line, col } = lines.linePos(offset);
    return `${label}:${Math.max(line, 1)}:${Math.max(col, 1)}`;
  };
  const fail = (offset: number | undefined, message: string) => {
    issues.push({ severity: 'error', at: placeOf(offset), path: '', message });
  };
  try {
    // TreeBuilder finds duplicate keys: the library compares every pair of keys, which is quadratic.
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      uniqueKeys: false,
      logLevel: 'error',
    });
    for (const error of document.errors) fail(error.pos[0], syntaxMessage(error));
    if (document.errors.length > 0 || document.contents === null) return undefined;
    return new TreeBuilder(placeOf, fail).build(document.contents);
  } catch (error) {
    // Deeply nested brackets: the parser recurses once per level and overflows the stack.
    if (!(error instanceof RangeError)) throw error;
    fail(undefined, TOO_DEEP);
    return undefined;
  }
}

const TOO_DEEP = `nested too deeply; ${MAX_DEPTH} levels are allowed`;

function syntaxMessage(error: { code: string; message: string }): string {
  // The parser recurses once per level, and reports an overflow of the stack like an error of the text.
  if (/call stack/.test(error.message)) return TOO_DEEP;
  switch (error.code) {
    case 'TAB_AS_INDENT':
      return 'a tab indents this line; YAML takes spaces only';
    case 'MULTIPLE_DOCS':
      return 'a second document starts here ("---"); put it into a file of its own and give --config twice';
    case 'BAD_INDENT':
      return `the indentation does not fit the lines above: ${lowerFirst(error.message)}`;
    default:
      return `not valid YAML: ${lowerFirst(error.message)}`;
  }
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

type Range = readonly [number, number, number] | null | undefined;

/** Walks the syntax tree in the order of the text, so an alias refers to the last anchor of its name. */
class TreeBuilder {
  #values = 0;
  #isOverflowing = false;
  readonly #anchors = new Map<string, Node>();
  readonly #open = new Set<Node>();
  readonly #placeOf: (offset: number | undefined) => string | undefined;
  readonly #fail: (offset: number | undefined, message: string) => void;

  constructor(
    placeOf: (offset: number | undefined) => string | undefined,
    fail: (offset: number | undefined, message: string) => void,
  ) {
    this.#placeOf = placeOf;
    this.#fail = fail;
  }

  build(node: unknown, depth = 0, inAlias = false): ConfigNode {
    const offset = (node as { range?: Range } | null)?.range?.[0];
    const at = this.#placeOf(offset);
    const nothing: ConfigNode = { kind: 'scalar', value: null, at };
    if (this.#isOverflowing) return nothing;
    if (++this.#values > MAX_VALUES) {
      this.#isOverflowing = true;
      this.#fail(offset, `more than ${MAX_VALUES} values once aliases are followed`);
      return nothing;
    }
    if (depth > MAX_DEPTH) {
      this.#fail(offset, TOO_DEEP);
      this.#isOverflowing = true;
      return nothing;
    }
    if (isAlias(node)) return this.#followAlias(node.source, offset, depth);
    if (isScalar(node)) {
      if (node.anchor !== undefined && !inAlias) this.#anchors.set(node.anchor, node);
      return { kind: 'scalar', value: this.#scalar(node.value, offset), at };
    }
    if (!isMap(node) && !isSeq(node)) return nothing;
    if (node.anchor !== undefined && !inAlias) this.#anchors.set(node.anchor, node);
    this.#open.add(node);
    const built: ConfigNode = isSeq(node)
      ? { kind: 'list', at, items: node.items.map((item) => this.build(item, depth + 1, inAlias)) }
      : { kind: 'map', at, entries: this.#entries(node.items, depth, inAlias) };
    this.#open.delete(node);
    return built;
  }

  #followAlias(name: string, offset: number | undefined, depth: number): ConfigNode {
    const target = this.#anchors.get(name);
    if (target !== undefined && !this.#open.has(target)) return this.build(target, depth, true);
    this.#fail(
      offset,
      target === undefined
        ? `there is no anchor &${name} above this alias`
        : `the alias *${name} is inside the value that it refers to`,
    );
    return { kind: 'scalar', value: null, at: this.#placeOf(offset) };
  }

  #entries(
    pairs: readonly { key: unknown; value: unknown }[],
    depth: number,
    inAlias: boolean,
  ): Map<string, MapEntry> {
    const entries = new Map<string, MapEntry>();
    const merged: { readonly source: ConfigNode; readonly offset: number | undefined }[] = [];
    for (const { key, value } of pairs) {
      const offset = (key as { range?: Range } | null)?.range?.[0];
      const name = this.#keyText(key, offset);
      if (name === undefined) continue;
      const built = this.build(value, depth + 1, inAlias);
      if (name === '<<') {
        const sources = built.kind === 'list' ? built.items : [built];
        merged.push(...sources.map((source) => ({ source, offset })));
        continue;
      }
      const keyAt = this.#placeOf(offset);
      const first = entries.get(name);
      if (first !== undefined) {
        const firstPlace = first.keyAt === undefined ? '' : `; the first one is at ${first.keyAt}`;
        if (!inAlias) this.#fail(offset, `the key "${name}" is duplicated${firstPlace}`);
        continue;
      }
      entries.set(name, { keyAt, value: this.#at(built, keyAt) });
    }
    for (const { source, offset } of merged) {
      if (source.kind !== 'map') {
        this.#fail(offset, '"<<" takes a map, or a list of maps');
        continue;
      }
      for (const [name, entry] of source.entries) {
        if (!entries.has(name)) entries.set(name, entry);
      }
    }
    return entries;
  }

  /** The place of an empty value (`otlp:`) is the place of its key. */
  #at(node: ConfigNode, keyAt: string | undefined): ConfigNode {
    return node.kind === 'scalar' && node.value === null ? { ...node, at: keyAt } : node;
  }

  #keyText(key: unknown, offset: number | undefined): string | undefined {
    if (isScalar(key) && key.value !== null) {
      if (key.anchor !== undefined) this.#anchors.set(key.anchor, key);
      return typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
    }
    this.#fail(offset, 'a key must be a plain text');
    return undefined;
  }

  #scalar(value: unknown, offset: number | undefined): Scalar {
    if (value === null || value === undefined) return null;
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
      return value;
    }
    if (typeof value === 'bigint') return Number(value);
    this.#fail(offset, 'only texts, numbers, true, false, lists and maps are allowed');
    return null;
  }
}

/** Returns the text of a file by its path, or throws. */
export type ReadFile = (path: string) => string;

/** The text of a file or a pipe. Throws if it is too large, not UTF-8, or unreadable. */
export function readBounded(path: string): string {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(MAX_FILE_BYTES + 1);
    let length = 0;
    for (;;) {
      const read = readSync(file, bytes, length, bytes.length - length, null);
      length += read;
      if (length > MAX_FILE_BYTES) throw new Error('it is larger than 1 MiB');
      if (read === 0) break;
    }
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length));
  } finally {
    closeSync(file);
  }
}

/** The reason why a file cannot be read. */
export function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') return 'there is no such file';
  if (code === 'EACCES') return 'permission denied';
  if (code === 'EISDIR') return 'it is a directory';
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'it is not UTF-8 text';
  return error instanceof Error ? error.message : String(error);
}
