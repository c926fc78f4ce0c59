/**
 * A configuration between its file and its schema: plain values with their place, so that every message names
 * file, line and column, and with their source, so that no secret is printed.
 */

/** The source of a value that had a `${…}`. */
export type Expansion = {
  /** The whole text after replacement, for fields that take a string. */
  readonly text: string;
  /** The same text with values from the environment or a file as `[REDACTED]`. */
  readonly shown: string;
};

type Placed = {
  /** `config.yaml:12:5`; undefined if the value is not from a file. */
  readonly at: string | undefined;
  readonly expansion?: Expansion;
};

export type Scalar = string | number | boolean | null;
export type ScalarNode = Placed & { readonly kind: 'scalar'; readonly value: Scalar };
type ListNode = Placed & { readonly kind: 'list'; readonly items: readonly ConfigNode[] };
export type MapEntry = { readonly keyAt: string | undefined; readonly value: ConfigNode };
export type MapNode = Placed & {
  readonly kind: 'map';
  readonly entries: ReadonlyMap<string, MapEntry>;
};
export type ConfigNode = ScalarNode | ListNode | MapNode;

export type Path = readonly (string | number)[];

export const REDACTED = '[REDACTED]';

/** The text with the credentials of its URLs redacted: `https://user:[REDACTED]@host`. A password may have an `@`. */
export function withoutCredentials(text: string): string {
  return text.replace(/(:\/\/(?:[^\s/?#:@"]*:)?)[^\s/?#"]+@/g, `$1${REDACTED}@`);
}

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

/** The node at a path; undefined if the path leaves the tree. */
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
 * The place of the last existing step of a path: its key if there is one, else its value, else the value around it.
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
