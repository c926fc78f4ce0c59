import { fillPlaces, traceJson, treeJson } from '../store/observation-json.ts';
import type { TraceTotals, UsageNode } from '../store/rows/trace-totals.ts';
import { traceTotals } from '../store/rows/trace-totals.ts';
import { placeInTree, usageNodeOf } from '../store/rows/tree.ts';
import type { NarrowObservation, Page, StoredTrace } from '../store/store.ts';
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
  fetch(limit: number, cursor: string | undefined): Promise<Page<NarrowObservation>>;
};

/** The JSON of some observations, whose places are blank. */
type Kept = { readonly nodes: readonly UsageNode[]; readonly texts: Buffer };

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
  const totals = await totalsOf(source, (items, nodes, cursor) => {
    if (left <= 0) rest ??= cursor;
    if (rest !== undefined) return;
    const texts = textsOf(items, kept.length === 0);
    reservation.grow(texts.length);
    left -= texts.length;
    kept.push({ nodes, texts });
  });
  await out.add(`{"trace":${traceJson(trace)},"observations":[`);
  for (const { nodes, texts } of kept) await write(out, texts, nodes, totals);
  if (rest !== undefined) {
    for await (const { items } of steps(source, rest)) {
      await write(out, textsOf(items, false), items.map(usageNodeOf), totals);
    }
  }
  out.end(']}');
}

function textsOf(items: readonly NarrowObservation[], isFirst: boolean): Buffer {
  let text = '';
  for (const observation of items) text += `,${treeJson(observation)}`;
  return Buffer.from(isFirst ? text.slice(1) : text);
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

/** The totals of a trace, which say which of its observations are counted. `onStep` gets each step's rows. */
export async function totalsOf(
  source: TreeSource,
  onStep?: (items: Step['items'], nodes: readonly UsageNode[], cursor: Step['cursor']) => void,
): Promise<TraceTotals> {
  const all: UsageNode[][] = [];
  for await (const { items, cursor } of steps(source, undefined)) {
    source.read.reservation.grow(items.length * NODE_BYTES);
    const nodes = items.map(usageNodeOf);
    all.push(nodes);
    onStep?.(items, nodes, cursor);
  }
  return traceTotals(all.flat());
}

type Step = {
  readonly items: readonly NarrowObservation[];
  /** The cursor that the step begins at. */
  readonly cursor: string | undefined;
};

async function* steps(
  { read, fetch }: TreeSource,
  first: string | undefined,
): AsyncGenerator<Step> {
  let cursor = first;
  for (;;) {
    const from = cursor;
    const { items, nextCursor } = await read.turn(() => fetch(STEP_ROWS, from));
    yield { items, cursor };
    if (nextCursor === null) return;
    cursor = nextCursor;
  }
}
