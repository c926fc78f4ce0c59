import { fillPlaces, traceJson } from '../store/observation-json.ts';
import type { TraceTotals, UsageNode } from '../store/rows/trace-totals.ts';
import { traceTotals } from '../store/rows/trace-totals.ts';
import { placeInTree } from '../store/rows/tree.ts';
import type { StoredTrace, TreePage } from '../store/store.ts';
import type { JsonAnswer } from './answer.ts';
import type { Read } from './reads.ts';

/** Rows of one step; the bytes of a page bound it too. */
const STEP_ROWS = 1000;

/** About the memory of an observation while the totals of its trace are computed. */
const NODE_BYTES = 512;

/** Bytes of texts after whose step no further ones are kept: the rows behind them are read again. */
const KEPT_BYTES = 16 * 1_048_576;

export type TreeSource = {
  readonly read: Read;
  /** `hasText`: whether the texts are wanted, or the nodes alone. */
  fetch(limit: number, cursor: string | undefined, hasText: boolean): Promise<TreePage>;
};

type Kept = Pick<TreePage, 'nodes' | 'text'>;

/**
 * Writes every observation of a trace without its payloads. The totals decide which observations are counted, so every row is
 * read before the first one is written. The texts of the first ones are kept until then:
 *
 *   turn: rows of one step ─▶ texts, nodes ─▶ next step … ─▶ totals ─▶ write the texts, at the pace of the client
 *                                                          ─▶ turn: rows behind them ─▶ write ─▶ …
 */
export async function writeTree(
  out: JsonAnswer,
  trace: StoredTrace,
  source: TreeSource,
  keptBytes = KEPT_BYTES,
): Promise<void> {
  const { reservation } = source.read;
  const kept: Kept[] = [];
  /** Above zero before the first step. */
  let left = keptBytes;
  /** The cursor of the rows behind the kept texts; undefined if there are none. */
  let rest: string | undefined;
  const totals = await totalsOf(source, {
    wantsText: () => left > 0,
    add({ nodes, text }, cursor) {
      if (left <= 0) rest ??= cursor;
      // The observations behind the page before were erased since.
      if (rest !== undefined || nodes.length === 0) return;
      reservation.grow(text.length);
      left -= text.length;
      kept.push({ nodes, text });
    },
  });
  await out.add(`{"trace":${traceJson(trace)},"observations":[`);
  for (const [i, { nodes, text }] of kept.entries()) {
    if (i > 0) await out.add(',');
    await write(out, text, nodes, totals);
  }
  if (rest !== undefined) {
    for await (const [{ nodes, text }] of steps(source, rest, () => true)) {
      if (nodes.length === 0) continue;
      await out.add(',');
      await write(out, text, nodes, totals);
    }
  }
  out.end(']}');
}

async function write(
  out: JsonAnswer,
  texts: Buffer,
  nodes: readonly UsageNode[],
  totals: TraceTotals,
): Promise<void> {
  fillPlaces(
    texts,
    nodes.map((node) => placeInTree(node, totals)),
  );
  await out.addBytes(texts);
}

/** A request that wants the texts too, as long as it has room for them. */
type TextKeeping = {
  wantsText(): boolean;
  /** `cursor`: where the page begins. */
  add(page: TreePage, cursor: string | undefined): void;
};

/** The totals of a trace, which say which of its observations are counted. */
export async function totalsOf(source: TreeSource, keeping?: TextKeeping): Promise<TraceTotals> {
  const all: (readonly UsageNode[])[] = [];
  const wantsText = keeping === undefined ? () => false : keeping.wantsText;
  for await (const [page, cursor] of steps(source, undefined, wantsText)) {
    source.read.reservation.grow(page.nodes.length * NODE_BYTES);
    all.push(page.nodes);
    keeping?.add(page, cursor);
  }
  return traceTotals(all.flat());
}

async function* steps(
  { read, fetch }: TreeSource,
  first: string | undefined,
  wantsText: () => boolean,
): AsyncGenerator<readonly [page: TreePage, cursor: string | undefined]> {
  let cursor = first;
  for (;;) {
    const from = cursor;
    const page = await read.turn(() => fetch(STEP_ROWS, from, wantsText()));
    yield [page, from];
    if (page.nextCursor === null) return;
    cursor = page.nextCursor;
  }
}
