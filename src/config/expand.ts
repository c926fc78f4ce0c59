import { resolve } from 'node:path';
import type { Issue } from './config.ts';
import { type ReadFile, readYaml, reasonOf } from './read.ts';
import {
  type ConfigNode,
  type Expansion,
  type MapEntry,
  type Path,
  pathText,
  REDACTED,
  type ScalarNode,
} from './tree.ts';

/** The sources of the values of variables. */
export type VariableSources = {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The directory that `${file:PATH}` is relative to. */
  readonly cwd: string;
  readonly read: ReadFile;
};

/**
 * Replaces `${env:NAME}`, `${env:NAME:-default}`, `${env:NAME:?message}`, `${NAME}` and `${file:PATH}` in
 * every value, and `$$` by `$`. A value that is a single `${…}` takes the YAML type of its text; inside a longer
 * text it becomes text. The value of a variable is not expanded again.
 */
export function expand(root: ConfigNode, sources: VariableSources, issues: Issue[]): ConfigNode {
  return expandNode(root, [], sources, issues);
}

function expandNode(
  node: ConfigNode,
  path: Path,
  sources: VariableSources,
  issues: Issue[],
): ConfigNode {
  if (node.kind === 'list') {
    const items = node.items.map((item, index) =>
      expandNode(item, [...path, index], sources, issues),
    );
    return { ...node, items };
  }
  if (node.kind === 'map') {
    const entries = new Map<string, MapEntry>();
    for (const [key, { keyAt, value }] of node.entries) {
      entries.set(key, { keyAt, value: expandNode(value, [...path, key], sources, issues) });
    }
    return { ...node, entries };
  }
  if (typeof node.value !== 'string' || !node.value.includes('$')) return node;
  const report = (severity: Issue['severity'], message: string) =>
    issues.push({ severity, at: node.at, path: pathText(path), message });
  return expandScalar(node, node.value, new Expander(sources, report));
}

function expandScalar(node: ScalarNode, value: string, expander: Expander): ConfigNode {
  const whole = wholeReference(value);
  if (whole === undefined) {
    const { text, shown } = expander.text(value, 0);
    return { ...node, value: text, ...(text === shown ? {} : { expansion: { text, shown } }) };
  }
  const { text, shown } = expander.reference(whole, 0);
  return typed(text, { text, shown }, node.at);
}

/** The inside of a value that is a single `${…}`. */
function wholeReference(value: string): string | undefined {
  return value.startsWith('${') && closingBrace(value, 2) === value.length - 1
    ? value.slice(2, -1)
    : undefined;
}

/** The text with its YAML type. A string remains as it is, with comment signs and quotes. */
function typed(text: string, expansion: Expansion, at: string | undefined): ConfigNode {
  const problems: Issue[] = [];
  const read = readYaml(text, undefined, problems);
  const isText = problems.length > 0 || (read?.kind === 'scalar' && typeof read.value === 'string');
  if (isText) return { kind: 'scalar', value: text, at, expansion };
  if (read === undefined) return { kind: 'scalar', value: null, at, expansion };
  return placedAt(read, expansion, at);
}

/** Every value of an expansion has the place of its variable, and is as secret as the whole. */
function placedAt(node: ConfigNode, expansion: Expansion, at: string | undefined): ConfigNode {
  const inner = (child: ConfigNode): ConfigNode => {
    const text = child.kind === 'scalar' ? String(child.value ?? '') : '';
    const isSecret = expansion.shown !== expansion.text;
    return placedAt(child, { text, shown: isSecret ? REDACTED : text }, at);
  };
  if (node.kind === 'scalar') return { ...node, at, expansion };
  if (node.kind === 'list') return { ...node, at, expansion, items: node.items.map(inner) };
  const entries = new Map<string, MapEntry>();
  for (const [key, entry] of node.entries)
    entries.set(key, { keyAt: at, value: inner(entry.value) });
  return { ...node, at, expansion, entries };
}

/** The position of the brace that closes the one before `from`; -1 if there is none. */
function closingBrace(text: string, from: number): number {
  let depth = 1;
  for (let position = from; position < text.length; position++) {
    if (text[position] === '{') depth++;
    if (text[position] === '}' && --depth === 0) return position;
  }
  return -1;
}

/** Levels of references inside defaults. */
const MAX_NESTING = 10;

/** A variable as shells write it. */
const SHELL_VARIABLE = /^\$[A-Z_][A-Z0-9_]+/;
/** Without the name: the value may be a secret that has a dollar sign. */
const NOT_A_SHELL = `a "$" before a name stays as it is; write \${env:NAME} for a variable, or $$ for the sign itself`;

class Expander {
  readonly #sources: VariableSources;
  readonly #report: (severity: Issue['severity'], message: string) => void;

  constructor(
    sources: VariableSources,
    report: (severity: Issue['severity'], message: string) => void,
  ) {
    this.#sources = sources;
    this.#report = report;
  }

  /** Replaces every reference in a longer text. */
  text(value: string, nesting: number): Expansion {
    let text = '';
    let shown = '';
    let position = 0;
    while (position < value.length) {
      const dollar = value.indexOf('$', position);
      const literal = value.slice(position, dollar === -1 ? undefined : dollar);
      text += literal;
      shown += literal;
      if (dollar === -1) break;
      const next = value[dollar + 1];
      if (next !== '{') {
        if (SHELL_VARIABLE.test(value.slice(dollar))) this.#report('warning', NOT_A_SHELL);
        text += '$';
        shown += '$';
        position = dollar + (next === '$' ? 2 : 1);
        continue;
      }
      const end = closingBrace(value, dollar + 2);
      if (end === -1) {
        this.#report('error', `a "\${" has no "}"; write $\${ for the text itself`);
        break;
      }
      const replaced = this.reference(value.slice(dollar + 2, end), nesting);
      text += replaced.text;
      shown += replaced.shown;
      position = end + 1;
    }
    return { text, shown };
  }

  /** The inside of one `${…}`. */
  reference(inside: string, nesting: number): Expansion {
    const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):(?![-?])/.exec(inside)?.[1];
    if (scheme === 'file') return this.#file(inside.slice('file:'.length));
    if (scheme !== undefined && scheme !== 'env') {
      this.#report('error', `\${${scheme}:…} is not known; allowed: \${env:NAME}, \${file:PATH}`);
      return NOTHING;
    }
    return this.#variable(scheme === 'env' ? inside.slice('env:'.length) : inside, nesting);
  }

  #variable(inside: string, nesting: number): Expansion {
    const match = /^([A-Za-z_][A-Za-z0-9_]*)(?::([-?])([\s\S]*))?$/.exec(inside);
    const name = match?.[1];
    if (name === undefined) {
      this.#report(
        'error',
        `not a variable; write \${env:NAME}, \${env:NAME:-default} or \${env:NAME:?message}`,
      );
      return NOTHING;
    }
    const value = this.#sources.env[name];
    const rest = match?.[3] ?? '';
    if (match?.[2] === '?' && (value === undefined || value === '')) {
      const wanted = rest === '' ? '' : `: ${rest}`;
      this.#report('error', `the environment variable ${name} is not set${wanted}`);
      return NOTHING;
    }
    if (value !== undefined) return { text: value, shown: value === '' ? '' : REDACTED };
    if (match?.[2] === '-') {
      return nesting < MAX_NESTING ? this.text(rest, nesting + 1) : { text: rest, shown: rest };
    }
    this.#report('warning', `the environment variable ${name} is not set and counts as empty`);
    return NOTHING;
  }

  #file(name: string): Expansion {
    try {
      const { cwd, read } = this.#sources;
      const text = read(resolve(cwd, name)).replace(/\r?\n$/, '');
      return { text, shown: text === '' ? '' : REDACTED };
    } catch (error) {
      this.#report('error', `\${file:${name}} cannot be read: ${reasonOf(error)}`);
      return NOTHING;
    }
  }
}

const NOTHING: Expansion = { text: '', shown: '' };
