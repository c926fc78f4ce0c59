import { resolve } from 'node:path';
import type { Issue, ServiceConfig } from './config.ts';
import { expand } from './expand.ts';
import { mergeConfig, readSetting } from './merge.ts';
import { printable } from './print.ts';
import { type ReadFile, readBounded, readYaml, reasonOf } from './read.ts';
import { type NamedComponent, type Registry, SECTIONS } from './registry.ts';
import { type ConfigNode, nodeAt } from './tree.ts';
import { validate } from './validate.ts';

export type ReadRequest = {
  /** They are merged in this order. */
  readonly files: readonly string[];
  /** `a.b.c=value`, over all files. */
  readonly sets?: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The directory that relative paths of files are relative to. */
  readonly cwd: string;
  /** Returns the text of a file by its absolute path. Default: reads the file. */
  readonly read?: ReadFile;
};

export type LoadRequest = ReadRequest & { readonly registry: Registry };

/** A configuration that is read, merged and expanded, and not yet checked. */
export type ReadConfig = {
  readonly files: readonly string[];
  readonly root: ConfigNode | undefined;
  /** False if a file cannot be read or parsed. */
  readonly isReadable: boolean;
  readonly issues: readonly Issue[];
};

export type Loaded = {
  /** Undefined if any issue is an error. */
  readonly config: ServiceConfig | undefined;
  /** In the order of files and lines. */
  readonly issues: readonly Issue[];
  /** The whole configuration with secrets redacted; empty if it could not be read. */
  readonly printable: Record<string, unknown>;
};

/** files ─▶ read ─▶ merge ─▶ --set ─▶ expand ─▶ validate. Never throws because of the content of a file. */
export function loadConfig(request: LoadRequest): Loaded {
  return checkConfig(readConfig(request), request.registry);
}

/** files ─▶ read ─▶ merge ─▶ --set ─▶ expand. */
export function readConfig(request: ReadRequest): ReadConfig {
  const issues: Issue[] = [];
  const { files, env, cwd, read = readBounded } = request;
  let root: ConfigNode | undefined;
  for (const file of files) {
    const node = readFile(file, cwd, read, issues);
    if (node !== undefined) root = mergeConfig(root, node, issues);
  }
  const isReadable = !issues.some((issue) => issue.severity === 'error');
  for (const setting of request.sets ?? []) {
    const node = readSetting(setting, issues);
    if (node !== undefined) root = mergeConfig(root, node, issues);
  }
  if (!isReadable) return { files, root: undefined, isReadable, issues };
  const expanded = root && expand(root, { env, cwd, read }, issues);
  return { files, root: expanded, isReadable, issues };
}

/** The components that a configuration declares, as far as their sections and ids have the form of such. */
export function namedComponents({ root }: ReadConfig): NamedComponent[] {
  return Object.entries(SECTIONS).flatMap(([section, kind]) => {
    const declared = root && nodeAt(root, [section]);
    if (declared?.kind !== 'map') return [];
    return [...declared.entries.keys()].map((id) => ({ kind, type: id.split('/')[0] ?? '' }));
  });
}

/** Checks a configuration against a registry of the components that it names. */
export function checkConfig(read: ReadConfig, registry: Registry): Loaded {
  const { files, root } = read;
  const issues = [...read.issues];
  // The content of an unreadable file is unknown, so the other files cannot be checked against it.
  if (!read.isReadable) {
    return { config: undefined, issues: inOrder(issues, files), printable: {} };
  }
  const config = validate(root, registry, issues);
  return {
    config: issues.some((issue) => issue.severity === 'error') ? undefined : config,
    issues: inOrder(issues, files),
    printable: root === undefined ? {} : printable(root, registry),
  };
}

function readFile(
  file: string,
  cwd: string,
  read: ReadFile,
  issues: Issue[],
): ConfigNode | undefined {
  const name = file.replace(/^file:/, '');
  try {
    return readYaml(read(resolve(cwd, name)), name, issues);
  } catch (error) {
    const message = `cannot be read: ${reasonOf(error)}`;
    issues.push({ severity: 'error', at: name, path: '', message });
    return undefined;
  }
}

function inOrder(issues: readonly Issue[], files: readonly string[]): Issue[] {
  const rank = (issue: Issue): readonly [number, number, number] => {
    const match = /^(.*):(\d+):(\d+)$/.exec(issue.at ?? '');
    const file = files.findIndex((name) => name.replace(/^file:/, '') === (match?.[1] ?? issue.at));
    return [file === -1 ? files.length : file, Number(match?.[2] ?? 0), Number(match?.[3] ?? 0)];
  };
  return [...issues].sort((a, b) => {
    const [left, right] = [rank(a), rank(b)];
    return left[0] - right[0] || left[1] - right[1] || left[2] - right[2];
  });
}

/** `config.yaml:12:5: error: receivers.otlp: unknown key …` */
export function formatIssue(issue: Issue): string {
  return [issue.at, issue.severity, issue.path, issue.message]
    .filter((part) => part !== undefined && part !== '')
    .join(': ');
}
