import type { ClientCase } from './client-case.ts';
import { npmClients } from './install.ts';
import type { Runtime } from './lab.ts';
import { NPM_CASES } from './npm-cases.ts';

export { NPM_CASES } from './npm-cases.ts';

/** The programs of all pages, in the order of the matrix. */
export const ALL_CASES: readonly ClientCase[] = [...NPM_CASES];

/** Installs the packages of a program if they are missing. */
export async function runtimeOf(_each: ClientCase): Promise<Runtime> {
  const modules = `${await npmClients()}/node_modules`;
  return { file: 'program.mjs', command: `'${process.execPath}' program.mjs`, modules };
}
