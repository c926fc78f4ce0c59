import { readFileSync } from 'node:fs';
import type { ClientCase } from './client-case.ts';

/** The two blocks of a page that a test runs. */
export type PageProgram = {
  /** A shell script that sets the variables. */
  readonly settings: string;
  readonly program: string;
};

export const CLIENT_PAGES = new URL('../../docs/clients/', import.meta.url);

/** The blocks below `<!-- settings -->`, or `<!-- SECTION: settings -->`, and `<!-- SECTION: program -->`. */
export function programOf(each: ClientCase): PageProgram {
  const { section, variant, edit, programPage: page = each.page } = each;
  const text = readFileSync(new URL(`${page}.md`, CLIENT_PAGES), 'utf8');
  const blocks = [...text.matchAll(/<!-- (.+) -->\n+```\w+\n([\s\S]*?)```/g)];
  const find = (title: string) => blocks.find(([, each]) => each === title)?.[2];
  const block = (title: string) => {
    const found = find(title);
    if (found === undefined) throw new Error(`docs/clients/${page}.md has no block "${title}"`);
    return found;
  };
  const shared = variant === undefined ? 'settings' : `settings, ${variant}`;
  const settings = find(`${section}: settings`) ?? block(shared);
  const program = block(`${section}: program`);
  if (edit === undefined) return { settings, program };
  const [from, to] = edit;
  if (!program.includes(from)) throw new Error(`docs/clients/${page}.md: no "${from}" to replace`);
  return { settings, program: program.replaceAll(from, to) };
}
