/**
 * A configuration between its file and its schema: plain values that remember where they stand, so that
 * every message can name file, line and column, and where they came from, so that no secret is printed.
 */

/** What a value was before `${…}` in it was replaced. */
export type Expansion = {
  /** The whole text after replacement; what a field that wants a string gets. */
  readonly text: string;
  /** The same for people: what came from the environment or a file is `[REDACTED]`. */
  readonly shown: string;
};

type Standing = {
  /** `config.yaml:12:5`; undefined for what was not read from a file. */
  readonly at: string | undefined;
  readonly expansion?: Expansion;
};

export type Scalar = string | number | boolean | null;
export type ScalarNode = Standing & { readonly kind: 'scalar'; readonly value: Scalar };
export type ListNode = Standing & { readonly kind: 'list'; readonly items: readonly ConfigNode[] };
export type MapEntry = { readonly keyAt: string | undefined; readonly value: ConfigNode };
export type MapNode = Standing & {
  readonly kind: 'map';
  readonly entries: ReadonlyMap<string, MapEntry>;
};
export type ConfigNode = ScalarNode | ListNode | MapNode;

export type Path = readonly (string | number)[];

export const REDACTED = '[REDACTED]';

/** `receivers.otlp.protocols`, `keys[2].token`. */
export function pathText(path: Path): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

export function isNull(node: ConfigNode): boolean {
  return node.kind === 'scalar' && node.value === null;
}

/** The node at a path; undefined where the path leaves the tree. */
export function nodeAt(root: ConfigNode | undefined, path: Path): ConfigNode | undefined {
  let node = root;
  for (const step of path) {
    if (node?.kind === 'map') node = node.entries.get(String(step))?.value;
    else if (node?.kind === 'list') node = node.items[Number(step)];
    else return undefined;
  }
  return node;
}

/**
 * The nearest place to the end of a path: the key where there is one, else the value, else what holds it.
 */
export function placeOf(root: ConfigNode | undefined, path: Path): string | undefined {
  for (let length = path.length; length > 0; length--) {
    const holder = nodeAt(root, path.slice(0, length - 1));
    const step = path[length - 1];
    if (holder?.kind === 'map') {
      const entry = holder.entries.get(String(step));
      if (entry !== undefined) return entry.keyAt ?? entry.value.at;
    }
    if (holder?.kind === 'list') {
      const item = holder.items[Number(step)];
      if (item !== undefined) return item.at;
    }
  }
  return root?.at;
}

/** The value as code sees it. */
export function plain(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(plain);
  return Object.fromEntries([...node.entries].map(([key, entry]) => [key, plain(entry.value)]));
}
