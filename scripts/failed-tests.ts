import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Prints the failed tests of the last run of tap, for the end of a log: tap prints them before its table of coverage.
 *   node scripts/failed-tests.ts [LOG]
 * With the output of tap, also the files that failed as a whole, such as those that ended early.
 */

const RESULTS = '.tap/test-results';
/** Lines of diagnosis for each failure, and characters of a line. */
const LINES = 20;
const WIDTH = 200;
/** Members of a diagnosis that say little, or repeat the place of the failure. */
const REPEATED = /^(at|source|compare|tapCaught|test|handles):/;

/**
 * The failures in a report, each with the names of its tests and its first lines of diagnosis. A failed test with a
 * failure inside is left out.
 */
export function failuresOf(report: string): string[] {
  const lines = report.split('\n');
  const failures: string[] = [];
  const tests: string[] = [];
  /** Indentation of the last failure: a failed test around it comes next, with less. */
  let inner = 0;
  for (const [i, line] of lines.entries()) {
    const depth = indentOf(line) / 4;
    const name = /^ *# Subtest: (.*)/.exec(line)?.[1];
    if (name !== undefined) tests.splice(depth, Infinity, name);
    const failed = /^ *not ok \d+ (.*)/.exec(line)?.[1];
    if (failed === undefined) continue;
    const isAround = depth < inner;
    inner = depth;
    if (isAround) continue;
    const path = [...tests.slice(0, depth), failed].join(' > ');
    const shown = [`not ok ${path}`, ...diagnosisOf(lines, i + 1)];
    failures.push(shown.map((text) => text.slice(0, WIDTH)).join('\n'));
  }
  return failures;
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function diagnosisOf(lines: readonly string[], from: number): string[] {
  const start = lines[from] ?? '';
  if (start.trim() !== '---') return [];
  const indent = indentOf(start);
  const shown: string[] = [];
  let isRepeated = false;
  for (const line of lines.slice(from + 1)) {
    if (line.trim() === '...' || shown.length === LINES) break;
    if (line.trim() === '') continue;
    if (indentOf(line) === indent) isRepeated = REPEATED.test(line.trim());
    if (!isRepeated) shown.push(`  ${line.slice(indent)}`);
  }
  return shown;
}

/** All that failed, by file. */
function summary(log: string | undefined): string {
  const sections: string[] = [];
  for (const path of readdirSync(RESULTS, { recursive: true, encoding: 'utf8' }).sort()) {
    if (!path.endsWith('.tap')) continue;
    const failures = failuresOf(readFileSync(join(RESULTS, path), 'utf8'));
    if (failures.length === 0) continue;
    sections.push([`== ${path.slice(0, -'.tap'.length)}`, ...failures].join('\n'));
  }
  if (log !== undefined) {
    const files = readFileSync(log, 'utf8').match(/^not ok .*/gm) ?? ['none: coverage is too low'];
    sections.push(['== failed files', ...files].join('\n'));
  }
  return `\n${sections.join('\n\n')}\n`;
}

if (import.meta.main) process.stdout.write(summary(process.argv[2]));
