import type { Answer } from '../../test/e2e/client.ts';
import { p99 } from '../compare.ts';
import type { ReadingCase } from './cases.ts';
import { readingCases } from './cases.ts';
import type { FilledStore } from './store.ts';

const WARMING = 3;
const LEAST_ROUNDS = 10;
const MOST_ROUNDS = 100;
/** A case ends after this time. */
const CASE_MS = 3_000;

/** A row for each case: CPU of a request, first and later pages alike. */
export async function measureReads(
  store: FilledStore,
  print: (line: string) => void,
  wanted: (name: string) => boolean,
): Promise<void> {
  for (const each of readingCases(store)) {
    if (wanted(each.name)) print(await measured(store, each));
  }
}

async function measured(store: FilledStore, each: ReadingCase): Promise<string> {
  const target =
    each.target === undefined ? '' : `≤ ${each.target} ms CPU, ${each.isP99 ? 'p99' : 'mean'}`;
  const [cpu, wall]: [number[], number[]] = [[], []];
  let partial = 0;
  const begun = performance.now();
  for (let round = -WARMING; round < MOST_ROUNDS; round++) {
    if (round >= LEAST_ROUNDS && performance.now() - begun > CASE_MS) break;
    let path: string | undefined = each.path;
    for (let page = 0; page <= (each.pages ?? 0) && path !== undefined; page++) {
      const before = store.cpuMs();
      const answer: Answer = await store.call({
        path: `/api/v1${path}`,
        timeoutMs: 120_000,
      });
      const spent = store.cpuMs() - before;
      if (answer.status !== 200)
        return `| ${each.name} | not served: ${answer.status} | | ${target} |`;
      const text = answer.body.toString();
      if (round >= 0 && text.includes('"partial":true')) partial++;
      if (round >= 0) {
        cpu.push(spent);
        wall.push(answer.ms);
      }
      const [, cursor] = /"next_cursor":"([^"]+)"/.exec(text) ?? [];
      path = cursor && `${each.path}&cursor=${encodeURIComponent(cursor)}`;
    }
  }
  const mean = cpu.reduce((sum, one) => sum + one, 0) / cpu.length;
  const ended = partial === 0 ? '' : ` (${partial} of ${cpu.length} partial)`;
  const shown = `${mean.toFixed(1)} / ${p99(cpu).toFixed(1)} ms${ended}`;
  return `| ${each.name} | ${shown} | ${p99(wall).toFixed(1)} ms | ${target} |`;
}
