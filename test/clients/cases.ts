import { AGENT_CASES } from './agent-cases.ts';
import { ANTHROPIC_CASES } from './anthropic-cases.ts';
import type { ClientCase } from './client-case.ts';
import { COLLECTOR_CASE } from './collector-case.ts';
import { codingAgents, npmClients, pythonClients, traceloopForNode } from './install.ts';
import { INSTRUMENTED_CASES } from './instrumented-cases.ts';
import type { Runtime } from './lab.ts';
import { NPM_CASES } from './npm-cases.ts';
import { PYTHON_CASES } from './python-cases.ts';

export { NPM_CASES } from './npm-cases.ts';
export { NPM_PRINTED, PYTHON_PRINTED } from './printed-cases.ts';

/** The programs of all pages, which this package runs. */
export const ALL_CASES: readonly ClientCase[] = [
  ...NPM_CASES,
  ...AGENT_CASES,
  ...PYTHON_CASES,
  ...ANTHROPIC_CASES,
  ...INSTRUMENTED_CASES,
];

/** The rows of the matrix. */
export const MATRIX_CASES: readonly ClientCase[] = [...ALL_CASES, COLLECTOR_CASE];

/** Installs the packages of a program if they are missing. */
export async function runtimeOf({ list }: Pick<ClientCase, 'list'>): Promise<Runtime> {
  if (list === 'agents') {
    const programs = await codingAgents();
    return { file: 'program.sh', command: 'sh -eu program.sh', programs };
  }
  if (list !== 'npm' && list !== 'traceloop-js') {
    const python = await pythonClients(list);
    return { file: 'program.py', command: `'${python}' program.py` };
  }
  const place = await (list === 'npm' ? npmClients() : traceloopForNode());
  const modules = `${place}/node_modules`;
  return { file: 'program.mjs', command: `'${process.execPath}' program.mjs`, modules };
}
