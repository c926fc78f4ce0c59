import { resolve } from 'node:path';
import type { Issue, ServiceConfig } from './config.ts';
import { expand } from './expand.ts';
import { mergeConfig, readSetting } from './merge.ts';
import { printable } from './print.ts';
import { type ReadFile, readBounded, readYaml, reasonOf } from './read.ts';
import type { Registry } from './registry.ts';
import type { ConfigNode } from './tree.ts';
import { validate } from './validate.ts';

export type LoadRequest = {
  /** They are merged in this order. */
  readonly files: readonly string[];
  /** `a.b.c=value`, over all files. */
  readonly sets?: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly registry: Registry;
  /** The directory that relative paths of files are relative to. */
  readonly cwd: string;
  /** Returns the text of a file by its absolute path. Default: reads the file. */
  readonly read?: ReadFile;
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
  const issues: Issue[] = [];
  const { env, cwd, read = readBounded } = request;
  let root: ConfigNode | undefined;
  for (const file of request.files) {
    const node = readFile(file, cwd, read, issues);
    if (node !== undefined) root = mergeConfig(root, node, issues);
  }
  const isBroken = issues.some((issue) => issue.severity === 'error');
  for (const setting of request.sets ?? []) {
    const node = readSetting(setting, issues);
    if (node !== undefined) root = mergeConfig(root, node, issues);
  }
  // The content of an unreadable file is unknown, so the other files cannot be checked against it.
  if (isBroken) return { config: undefined, issues: inOrder(issues, request.files), printable: {} };
  const expanded = root && expand(root, { env, cwd, read }, issues);
  const config = validate(expanded, request.registry, issues);
  return {
    config: issues.some((issue) => issue.severity === 'error') ? undefined : config,
    issues: inOrder(issues, request.files),
    printable: expanded === undefined ? {} : printable(expanded, request.registry),
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
