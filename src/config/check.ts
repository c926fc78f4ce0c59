import type { z } from 'zod';
import { didYouMean } from '../component/did-you-mean.ts';
import type { Issue } from './config.ts';
import { fieldHint, valueHint } from './from-collector.ts';
import { descriptionOf, keysOf, marksOf, schemaAt, toInput } from './shape.ts';
import {
  type ConfigNode,
  nodeAt,
  type Path,
  pathText,
  placeOf,
  REDACTED,
  withoutCredentials,
} from './tree.ts';

/**
 * Checks one section against its schema. Every problem becomes an issue with its place and the allowed values; then
 * the result is undefined. `path` is the path of the section in the configuration.
 */
export function check<S extends z.ZodType>(
  schema: S,
  node: ConfigNode,
  path: Path,
  issues: Issue[],
): z.output<S> | undefined {
  const asText = new Set<ConfigNode>();
  for (;;) {
    const parsed = schema.safeParse(toInput(node, schema, asText));
    if (parsed.success) return parsed.data;
    const texts = wantedTexts(node, parsed.error.issues).filter((wanted) => !asText.has(wanted));
    if (texts.length > 0) {
      // `${env:KEY}` is 12345 and the field takes a string: use the string "12345".
      for (const wanted of texts) asText.add(wanted);
      continue;
    }
    const section: Section = { schema, node, path };
    issues.push(...parsed.error.issues.flatMap((issue) => describe(section, issue, [])));
    return undefined;
  }
}

type ZodIssue = z.core.$ZodIssue;
type Section = { readonly schema: z.ZodType; readonly node: ConfigNode; readonly path: Path };

/** Expanded values that were read as another type although the field takes a string. */
function wantedTexts(
  node: ConfigNode,
  found: readonly ZodIssue[],
  prefix: Path = [],
): ConfigNode[] {
  return found.flatMap((issue) => {
    const path = [...prefix, ...issue.path] as Path;
    if (issue.code === 'invalid_union') {
      return issue.errors.flatMap((branch) => wantedTexts(node, branch, path));
    }
    const wanted = nodeAt(node, path);
    const isText = issue.code === 'invalid_type' && issue.expected === 'string';
    return isText && wanted?.expansion !== undefined ? [wanted] : [];
  });
}

function describe(section: Section, issue: ZodIssue, prefix: Path): Issue[] {
  const path = [...prefix, ...issue.path] as Path;
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => unknownKey(section, path, key));
  }
  if (issue.code === 'invalid_union' && issue.message === 'Invalid input') {
    const branch = likeliestBranch(issue.errors);
    if (branch !== undefined) return branch.flatMap((inner) => describe(section, inner, path));
  }
  if (issue.code === 'invalid_key') {
    return [problem(section, path, issue.issues[0]?.message ?? 'this key is not allowed')];
  }
  const node = nodeAt(section.node, path);
  if (
    issue.code === 'invalid_type' &&
    (node === undefined || issue.message.endsWith('received undefined'))
  ) {
    const about = descriptionOf(schemaAt(section.schema, path) ?? section.schema);
    return [
      problem(
        section,
        path,
        `required and not given${about === undefined ? '' : ` (${about.replace(/\.$/, '')})`}`,
      ),
    ];
  }
  const isTypeWrong = issue.code !== 'custom';
  const value = got(section, path, node, isTypeWrong);
  return [problem(section, path, messageOf(section, path, issue, node) + value)];
}

function unknownKey(section: Section, path: Path, key: string): Issue {
  const allowed = keysOf(schemaAt(section.schema, path) ?? section.schema) ?? [];
  const list = allowed.length === 0 ? 'no key is allowed here' : `allowed: ${allowed.join(', ')}`;
  const hint = fieldHint([...section.path, ...path, key]) || didYouMean(key, allowed);
  return problem(section, [...path, key], `unknown key "${key}"${hint} (${list})`);
}

/** The branch of a union that fits the value's type, so that its message names the problem. */
function likeliestBranch(branches: readonly ZodIssue[][]): ZodIssue[] | undefined {
  const fitting = branches.filter((branch) => branch.every((issue) => issue.path.length > 0));
  return [...(fitting.length > 0 ? fitting : branches)].sort((a, b) => a.length - b.length)[0];
}

function messageOf(
  section: Section,
  path: Path,
  issue: ZodIssue,
  node: ConfigNode | undefined,
): string {
  if (issue.code === 'invalid_value') {
    const allowed = issue.values.map(String);
    const text = node?.kind === 'scalar' ? String(node.value) : '';
    const hint = valueHint([...section.path, ...path], text) || didYouMean(text, allowed);
    return `expected ${allowed.length === 1 ? '' : 'one of '}${allowed.join(', ')}${hint}`;
  }
  if (issue.code === 'invalid_type' && issue.message.startsWith('Invalid input')) {
    return `expected ${TYPE_NAMES[issue.expected] ?? issue.expected}`;
  }
  if (issue.code === 'too_big') return `expected at most ${boundOf(issue.maximum, issue.origin)}`;
  if (issue.code === 'too_small')
    return `expected at least ${boundOf(issue.minimum, issue.origin)}`;
  const message = issue.message.replace(/^Invalid \w+: /, '');
  return message.charAt(0).toLowerCase() + message.slice(1);
}

function boundOf(bound: number | bigint, origin: string): string {
  if (origin === 'string') return `${bound} ${bound === 1 ? 'character' : 'characters'}`;
  if (origin === 'array') return `${bound} ${bound === 1 ? 'item' : 'items'}`;
  return String(bound);
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a map',
  record: 'a map',
};

/** ` (got 5)`, redacted if the value is a secret or comes from the environment or a file. */
function got(
  section: Section,
  path: Path,
  node: ConfigNode | undefined,
  isTypeWrong: boolean,
): string {
  if (node === undefined) return '';
  // A rule about the members of a map or list says which of them; that it is one is no news.
  if (node.kind !== 'scalar') return isTypeWrong ? ` (got a ${node.kind})` : '';
  const isSecret = marksOf(schemaAt(section.schema, path) ?? section.schema).secret === true;
  const shown = node.expansion?.shown ?? node.value;
  if (shown === null) return ' (got nothing)';
  if (isSecret) return ` (got ${REDACTED})`;
  const text =
    typeof shown === 'string' ? JSON.stringify(withoutCredentials(shown)) : String(shown);
  return ` (got ${text.length > 60 ? `${text.slice(0, 60)}…` : text})`;
}

function problem(section: Section, path: Path, message: string): Issue {
  const secret = nodeAt(section.node, path)?.expansion;
  const hides = secret !== undefined && secret.shown !== secret.text && secret.text.length > 3;
  return {
    severity: 'error',
    at: placeOf(section.node, path),
    path: pathText([...section.path, ...path]),
    message: hides ? message.replaceAll(secret.text, REDACTED) : message,
  };
}
