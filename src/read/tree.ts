import { traceJson, treeJson } from '../store/observation-json.ts';
import type { UsageNode } from '../store/rows/trace-totals.ts';
import { traceTotals } from '../store/rows/trace-totals.ts';
import { placeInTree, usageNodeOf } from '../store/rows/tree.ts';
import type { Page, StoredTrace, TreeObservation } from '../store/store.ts';
import type { JsonAnswer } from './answer.ts';
import type { Read } from './reads.ts';

/** Rows of one step; the bytes of a page bound it too. */
const STEP_ROWS = 1000;

/** About the memory of an observation while the totals of its trace are computed. */
const NODE_BYTES = 1024;

export type TreeSource = {
  readonly read: Read;
  readonly trace: StoredTrace;
  fetch(limit: number, cursor: string | undefined): Promise<Page<TreeObservation>>;
};

/**
 * Writes every observation of a trace without its payloads. The first pass over the rows finds which observations the totals
 * count, and keeps what they depend on; the second one writes:
 *
 *   turn: rows of one step ─▶ next step … ─▶ totals ─▶ turn: rows of one step ─▶ write, at the pace of the client ─▶ …
 */
export async function writeTree(out: JsonAnswer, source: TreeSource): Promise<void> {
  const { read, trace } = source;
  const nodes: UsageNode[] = [];
  for await (const observations of steps(source)) {
    read.reservation.grow(observations.length * NODE_BYTES);
    for (const observation of observations) nodes.push(usageNodeOf(observation));
  }
  const totals = traceTotals(nodes);
  nodes.length = 0;
  await out.add(`{"trace":${traceJson(trace)},"observations":[`);
  let comma = '';
  for await (const observations of steps(source)) {
    for (const observation of observations) {
      const sent = out.add(comma + treeJson(observation, placeInTree(observation, totals)));
      comma = ',';
      // Hot path: most items wait for nothing.
      if (sent !== undefined) await sent;
    }
  }
  out.end(']}');
}

async function* steps({ read, fetch }: TreeSource): AsyncGenerator<readonly TreeObservation[]> {
  let cursor: string | undefined;
  do {
    const page = await read.turn(() => fetch(STEP_ROWS, cursor));
    yield page.items;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}
