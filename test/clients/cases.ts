import type { ClientCase } from './client-case.ts';
import { npmClients, pythonClients } from './install.ts';
import type { Runtime } from './lab.ts';
import { NPM_CASES } from './npm-cases.ts';
import { PYTHON_CASES } from './python-cases.ts';

export { NPM_CASES } from './npm-cases.ts';

/** The programs of all pages, in the order of the matrix. */
export const ALL_CASES: readonly ClientCase[] = [...NPM_CASES, ...PYTHON_CASES];

/** Pages whose packages conflict with those of the others. */
const LISTS = new Map([
  ['litellm', 'litellm'],
  ['traceloop', 'traceloop'],
]);

/** Installs the packages of a program if they are missing. */
export async function runtimeOf({ language, page }: ClientCase): Promise<Runtime> {
  if (language === 'python') {
    const python = await pythonClients(LISTS.get(page) ?? 'main');
    return { file: 'program.py', command: `'${python}' program.py` };
  }
  const modules = `${await npmClients()}/node_modules`;
  return { file: 'program.mjs', command: `'${process.execPath}' program.mjs`, modules };
}
