import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ALL_CASES, MATRIX_CASES, PYTHON_PRINTED, runtimeOf } from './cases.ts';
import type { ClientCase } from './client-case.ts';
import { packageVersions } from './install.ts';
import { Lab } from './lab.ts';
import { generatedPages } from './pages.ts';
import { type PrintedCase, STALE_STORE } from './printed-cases.ts';

/**
 * Runs the programs of docs/clients with the real SDKs against the daemon:
 *
 *   npm run test:clients [-- --only text] [--write]
 *
 * `--write` also writes the matrix in docs/clients/README.md and the trees of the pages, if all programs passed. Missing
 * packages are installed; a package that cannot be installed is a failure.
 */
const { values } = parseArgs({ options: { only: { type: 'string' }, write: { type: 'boolean' } } });
const print = (text: string) => void process.stdout.write(`${text}\n`);

const chosen = ALL_CASES.filter((each) => titleOf(each).includes(values.only ?? ''));
// The lists of packages install at the same time.
const printed = PYTHON_PRINTED.filter(({ name }) => name.includes(values.only ?? ''));
await Promise.allSettled([...chosen, ...printed].map(runtimeOf));
const lab = await Lab.start(STALE_STORE);
const failed: (ClientCase | PrintedCase)[] = [];
try {
  for (const each of chosen) if (!(await passes(each))) failed.push(each);
  for (const each of printed) if (!(await printsItsLines(each))) failed.push(each);
} finally {
  await lab.close();
}
if (values.write && failed.length === 0 && chosen.length === ALL_CASES.length) {
  for (const { path, text } of generatedPages(MATRIX_CASES, packageVersions())) {
    writeFileSync(path, text);
  }
}
print(`${chosen.length + printed.length - failed.length} passed, ${failed.length} failed`);
process.exitCode = failed.length === 0 ? 0 : 1;

function titleOf({ client, protocol }: ClientCase): string {
  return `${client}: ${protocol}`;
}

async function passes(each: ClientCase): Promise<boolean> {
  const started = performance.now();
  try {
    const { wrong, output } = await lab.run(each, await runtimeOf(each));
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    if (wrong.length === 0) print(`ok      ${titleOf(each)} (${seconds} s)`);
    else print([`FAILED  ${titleOf(each)}`, ...wrong, output].join('\n        '));
    return wrong.length === 0;
  } catch (error) {
    print(`FAILED  ${titleOf(each)}: ${error instanceof Error ? error.stack : String(error)}`);
    return false;
  }
}

async function printsItsLines(each: PrintedCase): Promise<boolean> {
  const output = await lab.output(each, await runtimeOf(each));
  const missing = each.prints.filter((line) => !line.test(output));
  print(missing.length === 0 ? `ok      ${each.name}` : `FAILED  ${each.name}\n${output}`);
  return missing.length === 0;
}
