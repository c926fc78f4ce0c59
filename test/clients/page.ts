import { readFileSync } from 'node:fs';
import type { ClientCase } from './client-case.ts';

/** The two blocks of a page that a test runs. */
export type PageProgram = {
  /** A shell script that sets the variables. */
  readonly settings: string;
  readonly program: string;
};

export const CLIENT_PAGES = new URL('../../docs/clients/', import.meta.url);

/** The blocks below `<!-- SECTION: settings -->` and `<!-- SECTION: program -->`. */
export function programOf({ page, section, settings = section }: ClientCase): PageProgram {
  const text = readFileSync(new URL(`${page}.md`, CLIENT_PAGES), 'utf8');
  const blocks = [...text.matchAll(/<!-- (.+: (?:settings|program)) -->\n+```\w+\n([\s\S]*?)```/g)];
  const block = (title: string) => {
    const found = blocks.find(([, each]) => each === title)?.[2];
    if (found === undefined) throw new Error(`docs/clients/${page}.md has no block "${title}"`);
    return found;
  };
  return { settings: block(`${settings}: settings`), program: block(`${section}: program`) };
}
