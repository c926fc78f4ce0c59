import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ClientCase } from './client-case.ts';
import type { Expected, ExpectedTrace } from './compare.ts';
import { CLIENT_PAGES } from './page.ts';

/** A file of docs/clients that the cases generate, in whole or in part. */
export type GeneratedPage = {
  readonly path: string;
  readonly text: string;
  /** The text in the repository. */
  readonly stored: string;
};

const MATRIX = /(<!-- matrix -->\n)[\s\S]*?(<!-- end of the matrix -->)/;
const HEAD = '| client | versions | protocol | calls | compared |\n| --- | --- | --- | --- | --- |';

/** The pages with the matrix and the trees of the cases. */
export function generatedPages(
  cases: readonly ClientCase[],
  versions: ReadonlyMap<string, string>,
): GeneratedPage[] {
  const byName = cases.toSorted((a, b) => (a.client < b.client ? -1 : 1));
  const rows = byName.map((each) => matrixRow(each, versions));
  return [
    generated('README', (text) => text.replace(MATRIX, `$1${[HEAD, ...rows].join('\n')}\n$2`)),
    ...[...new Set(cases.map(({ page }) => page))].map((page) =>
      generated(page, (text) => cases.filter((each) => each.page === page).reduce(withTree, text)),
    ),
  ];
}

function generated(page: string, change: (text: string) => string): GeneratedPage {
  const url = new URL(`${page}.md`, CLIENT_PAGES);
  const stored = readFileSync(url, 'utf8');
  return { path: fileURLToPath(url), text: change(stored), stored };
}

function matrixRow(each: ClientCase, versions: ReadonlyMap<string, string>): string {
  const packages = each.packages.map((name) => {
    const version = versions.get(`${each.list} ${name}`);
    if (version === undefined) throw new Error(`${name} has no version in the lists of packages`);
    return `\`${name}\` ${version}`;
  });
  const cells = [
    `[${each.client}](${each.page}.md)`,
    packages.join(', '),
    each.protocol,
    each.calls.join(', ') || 'spans of its own',
    compared(each.traces).join(', '),
  ];
  return `| ${cells.join(' | ')} |`;
}

/** The fields that the expectations of a case name. */
function compared(traces: readonly ExpectedTrace[]): string[] {
  const flat = (each: Expected): Expected[] => [each, ...(each.children ?? []).flatMap(flat)];
  const all = traces.flatMap(({ tree }) => tree.flatMap(flat));
  const has = (field: keyof Expected & keyof ExpectedTrace) =>
    [...all, ...traces].some((each) => each[field] !== undefined);
  const some = (field: keyof Expected) => all.some((each) => each[field] !== undefined);
  const counts = new Set(all.flatMap(({ usage }) => Object.keys(usage ?? {})));
  const kinds = ['cached_tokens', 'cache_write_tokens', 'reasoning_tokens'];
  const sent = kinds.filter((kind) => counts.has(kind));
  const details = sent.map((kind) => `, ${plainName(kind)}`).join('');
  const fields: readonly (readonly [boolean, string])[] = [
    [true, 'tree'],
    [true, 'names'],
    [true, 'kinds'],
    [some('model'), 'models'],
    [some('provider'), 'provider'],
    [counts.size > 0, `tokens (input, output, total${details})`],
    [some('inputs'), 'inputs'],
    [some('outputs'), 'outputs'],
    [some('error'), 'errors'],
    [some('tool'), 'tool names'],
    [has('session'), 'session'],
    [has('user'), 'user'],
    [has('tags'), 'tags'],
    [some('cost'), 'cost'],
    [traces.some(({ scores }) => scores !== undefined), 'scores'],
    [some('attachments'), 'attachments'],
    [some('hasFirstToken'), 'time to first token'],
  ];
  return fields.flatMap(([isCompared, field]) => (isCompared ? [field] : []));
}

/** Writes the tree of a case into its page, below `<!-- SECTION: arrives -->`. */
function withTree(page: string, { section, variant, programPage, traces }: ClientCase): string {
  if (variant !== undefined || programPage !== undefined) return page;
  const title = `<!-- ${section}: arrives -->\n`;
  const [before, after] = page.split(`${title}`);
  if (before === undefined || after === undefined) throw new Error(`a page has no ${title}`);
  const lines = traces.flatMap((trace) => traceLines(trace));
  return `${before}${title}\`\`\`text\n${lines.join('\n')}\n${after.replace(/^```text\n[\s\S]*?(?=```)/, '')}`;
}

function traceLines({ name, session, user, tags, usage, tree }: ExpectedTrace): string[] {
  const notes = [
    ...(session === undefined ? [] : [`session ${session}`]),
    ...(user === undefined ? [] : [`user ${user}`]),
    ...(tags ?? []).map((tag) => `tag ${tag}`),
    ...tokens(usage),
  ];
  return [[`trace "${name}"`, ...notes].join(', '), ...tree.flatMap((each) => lines(each, '  '))];
}

function lines(each: Expected, indent: string): string[] {
  const name = typeof each.name === 'string' ? each.name : each.name.source;
  const notes = [each.kind, each.model ?? [], tokens(each.usage), each.error ? 'error' : []].flat();
  return [
    `${indent}${name}: ${notes.join(', ')}`,
    ...(each.children ?? []).flatMap((child) => lines(child, `${indent}  `)),
  ];
}

function tokens(usage: Readonly<Record<string, number>> | undefined): string[] {
  if (usage === undefined) return [];
  const { input_tokens, output_tokens, total_tokens, ...details } = usage;
  return [
    `${input_tokens ?? 0} + ${output_tokens ?? 0} = ${total_tokens ?? '?'} tokens`,
    ...Object.entries(details).map(([kind, n]) => `${n} ${plainName(kind)}`),
  ];
}

function plainName(kind: string): string {
  return kind.replace('_tokens', '').replace('_', ' ');
}
