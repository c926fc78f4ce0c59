import { beginning } from './text-pieces.ts';

/** A value in a JSON document that a viewer shows; its children are made when it opens. */
export type JsonNode = {
  /** The name in its object, or the index in its array; undefined for the document. */
  readonly key: string | number | undefined;
  readonly value: unknown;
  readonly parent: JsonNode | undefined;
  readonly depth: number;
  isOpen: boolean;
  children: readonly JsonNode[] | undefined;
};

/** A row of a viewer: a value, the end of an open value, or a line of an open text. */
export type JsonRow =
  | { readonly type: 'value'; readonly node: JsonNode }
  | { readonly type: 'end'; readonly node: JsonNode }
  | { readonly type: 'line'; readonly node: JsonNode; readonly text: string };

/** Characters of a text that its row shows. */
export const SHORT_TEXT = 160;

/** Values that open at first, at most. */
const OPEN_AT_FIRST = 200;

/** The document with its first levels open. */
export function jsonDocument(value: unknown): JsonNode {
  const root = nodeOf(undefined, value, undefined);
  let left = OPEN_AT_FIRST;
  const waiting = [root];
  // The loop also takes what it appends. A long list leaves room for nothing else, so its values are not looked at.
  for (const next of waiting) {
    if (left <= 0) break;
    const { value: inner, depth } = next;
    const size = sizeOf(inner);
    if (!isBranch(inner) || depth > 3 || (depth > 0 && size > left)) continue;
    left -= size;
    next.isOpen = true;
    // One by one: a call takes only so many arguments.
    for (const child of childrenOf(next)) waiting.push(child);
  }
  return root;
}

function nodeOf(
  key: string | number | undefined,
  value: unknown,
  parent: JsonNode | undefined,
): JsonNode {
  const depth = parent === undefined ? 0 : parent.depth + 1;
  return { key, value, parent, depth, isOpen: false, children: undefined };
}

export function childrenOf(node: JsonNode): readonly JsonNode[] {
  const { value } = node;
  node.children ??= Array.isArray(value)
    ? value.map((each, index) => nodeOf(index, each, node))
    : typeof value === 'object' && value !== null
      ? Object.entries(value).map(([key, each]) => nodeOf(key, each, node))
      : [];
  return node.children;
}

/** Whether a value has values of its own. */
export function isBranch(value: unknown): value is object {
  return typeof value === 'object' && value !== null && sizeOf(value) > 0;
}

/** Whether a row shows only the beginning of a value: an open one shows the rest. */
export function canOpen({ value }: JsonNode): boolean {
  return isBranch(value) || isLongText(value);
}

export function isLongText(value: unknown): value is string {
  return typeof value === 'string' && (value.length > SHORT_TEXT || value.includes('\n'));
}

function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length;
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

/** The rows of a document. `columns` is the number of characters of a line of text. */
export function rowsOf(root: JsonNode, columns: number): JsonRow[] {
  const rows: JsonRow[] = [];
  // Documents may be deeper than the stack of calls.
  const waiting: JsonRow[] = [{ type: 'value', node: root }];
  for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
    rows.push(row);
    const { node, type } = row;
    if (type !== 'value' || !node.isOpen) continue;
    if (typeof node.value === 'string') {
      for (const text of linesOf(node.value, columns)) rows.push({ type: 'line', node, text });
      continue;
    }
    const children = childrenOf(node);
    waiting.push({ type: 'end', node });
    for (let index = children.length - 1; index >= 0; index--) {
      const child = children[index];
      if (child !== undefined) waiting.push({ type: 'value', node: child });
    }
  }
  return rows;
}

function linesOf(text: string, columns: number): string[] {
  const lines: string[] = [];
  for (const line of text.split('\n')) {
    if (line === '') lines.push('');
    for (let from = 0; from < line.length; ) {
      const part = beginning(line.slice(from, from + columns + 1), columns);
      lines.push(part);
      from += Math.max(part.length, 1);
    }
  }
  return lines;
}

/**
 * Opens what is above a value that a search found, and returns the node that has a row. The node of the search may be another one: a
 * search keeps no nodes of long closed lists.
 */
export function reveal(root: JsonNode, found: JsonNode): JsonNode {
  const steps: JsonNode[] = [];
  for (let at = found; at.parent !== undefined; at = at.parent) steps.push(at);
  let shown = root;
  for (const { key } of steps.reverse()) {
    shown.isOpen = true;
    const children = childrenOf(shown);
    const child =
      typeof key === 'number' ? children[key] : children.find((each) => each.key === key);
    if (child === undefined) break;
    shown = child;
  }
  return shown;
}

/** The most matches that a search returns. */
export const MATCHES = 1_000;

/** The values whose key or text has the wanted text, in the order of the document. It looks at closed values too. */
export function findInJson(root: JsonNode, wanted: string): JsonNode[] {
  const lower = wanted.trim().toLowerCase();
  const found: JsonNode[] = [];
  if (lower === '') return found;
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (hasText(node, lower)) found.push(node);
    if (found.length === MATCHES) break;
    const isKept = node.children !== undefined;
    const children = childrenOf(node);
    for (let index = children.length - 1; index >= 0; index--) {
      const child = children[index];
      if (child !== undefined) waiting.push(child);
    }
    // Nodes of long lists take much memory; `reveal` makes them again for a match that a person looks at.
    if (!isKept && !node.isOpen && children.length > 1_000) node.children = undefined;
  }
  return found;
}

function hasText({ key, value }: JsonNode, lower: string): boolean {
  if (typeof key === 'string' && key.toLowerCase().includes(lower)) return true;
  if (typeof value === 'string') return value.toLowerCase().includes(lower);
  return typeof value !== 'object' && String(value).toLowerCase().includes(lower);
}

/** The path of a value in JSONPath: `$.messages[0]["a b"]`. */
export function pathOf(node: JsonNode): string {
  const steps: string[] = [];
  for (let at: JsonNode | undefined = node; at?.key !== undefined; at = at.parent) {
    const { key } = at;
    if (typeof key === 'number') steps.push(`[${key}]`);
    else steps.push(/^[A-Za-z_]\w*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`);
  }
  return `$${steps.reverse().join('')}`;
}

/** A value as the clipboard gets it: a text as it is, anything else as JSON. */
export function copiedText(value: unknown): string {
  return typeof value === 'string' ? value : writtenJson(value);
}

/** JSON with indentation; the engine's own writer refuses documents that are very deep. */
function writtenJson(value: unknown): string {
  try {
    return JSON.stringify(value, withDigits, 2) ?? 'null';
  } catch {
    return 'The value is too deep to write.';
  }
}

type RawJson = { readonly rawJSON?: (text: string) => unknown };

/** A `bigint` with its digits; in a text if the browser cannot write it otherwise. */
function withDigits(_key: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  const { rawJSON } = JSON as JSON & RawJson;
  return rawJSON === undefined ? String(value) : rawJSON(String(value));
}

/** The content of a closed value in a few words. */
export function summaryOf(value: object): string {
  const size = sizeOf(value);
  if (Array.isArray(value)) return `${size} ${size === 1 ? 'item' : 'items'}`;
  const keys = Object.keys(value);
  const first = keys.slice(0, 4).map((key) => beginning(key, 24));
  return keys.length > 4 ? `${first.join(', ')}, … ${size} members` : first.join(', ');
}
