/** The part of a component that decides its place. */
type NodeShape = {
  readonly id: string;
  readonly kind: 'receiver' | 'processor' | 'exporter' | 'connector';
  readonly pipeline: string | null;
};
type EdgeShape = { readonly from: string; readonly to: string; readonly pipeline: string };

type Box = {
  readonly id: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
};

/** A frame around the processors of a pipeline, in their order. */
type Frame = Box & { readonly name: string };

export type Layout = {
  readonly width: number;
  readonly height: number;
  readonly boxes: readonly Box[];
  readonly frames: readonly Frame[];
  /** The path of each line, as the attribute `d` of SVG. */
  readonly lines: readonly { readonly id: string; readonly path: string }[];
};

export const NODE = { width: 184, height: 62 } as const;
const GAP = { column: 40, row: 18, inner: 14, frame: 10, title: 26 } as const;

/** One node, or the processors of a pipeline, which are drawn in one column. */
type Unit = { readonly id: string; readonly members: readonly string[]; readonly frame?: string };

/**
 * Places the components from left to right. A column holds what is equally many steps from a receiver; the processors
 * of a pipeline share one frame. The work is linear in nodes and edges.
 */
export function layoutOf(nodes: readonly NodeShape[], edges: readonly EdgeShape[]): Layout {
  const units = unitsOf(nodes);
  const unitOf = new Map(units.flatMap((unit) => unit.members.map((id) => [id, unit.id])));
  const links = linksBetween(unitOf, edges);
  const ranks = ranksOf(
    units.map(({ id }) => id),
    links,
  );
  const columns = columnsOf(units, ranks, links);
  const heights = columns.map(
    (column) => sum(column.map(heightOf)) + GAP.row * (column.length - 1),
  );
  const height = Math.max(0, ...heights);
  const boxes = new Map<string, Box>();
  const frames: Frame[] = [];
  let x = 0;
  for (const [index, column] of columns.entries()) {
    let y = (height - (heights[index] ?? 0)) / 2;
    const hasFrame = column.some((unit) => unit.frame !== undefined);
    const width = NODE.width + (hasFrame ? 2 * GAP.frame : 0);
    for (const unit of column) {
      place(unit, { x, y, width }, boxes, frames);
      y += heightOf(unit) + GAP.row;
    }
    x += width + GAP.column;
  }
  return {
    width: Math.max(0, x - GAP.column),
    height,
    boxes: [...boxes.values()],
    frames,
    lines: linesOf(edges, boxes, unitOf),
  };
}

function unitsOf(nodes: readonly NodeShape[]): readonly Unit[] {
  const units = new Map<string, Unit>();
  for (const { id, kind, pipeline } of nodes) {
    if (kind !== 'processor' || pipeline === null) {
      units.set(id, { id, members: [id] });
      continue;
    }
    const frame = `pipeline:${pipeline}`;
    const members = [...(units.get(frame)?.members ?? []), id];
    units.set(frame, { id: frame, members, frame: pipeline });
  }
  return [...units.values()];
}

type Links = ReadonlyMap<string, ReadonlySet<string>>;

/** The units that each unit sends to. */
function linksBetween(unitOf: ReadonlyMap<string, string>, edges: readonly EdgeShape[]): Links {
  const links = new Map<string, Set<string>>();
  for (const { from, to } of edges) {
    const [source, target] = [unitOf.get(from), unitOf.get(to)];
    if (source === undefined || target === undefined || source === target) continue;
    links.set(source, (links.get(source) ?? new Set()).add(target));
  }
  return links;
}

/** The longest way to each unit. A cycle, which no valid configuration has, stops at the number of units. */
function ranksOf(ids: readonly string[], links: Links): ReadonlyMap<string, number> {
  const ranks = new Map(ids.map((id) => [id, 0]));
  let waiting = [...ids];
  for (let round = 0; round < ids.length && waiting.length > 0; round += 1) {
    const moved = new Set<string>();
    for (const id of waiting) {
      const rank = (ranks.get(id) ?? 0) + 1;
      for (const target of links.get(id) ?? []) {
        if ((ranks.get(target) ?? 0) >= rank) continue;
        ranks.set(target, rank);
        moved.add(target);
      }
    }
    waiting = [...moved];
  }
  return ranks;
}

/** The units by column, each near the middle of the units that send to it. */
function columnsOf(
  units: readonly Unit[],
  ranks: ReadonlyMap<string, number>,
  links: Links,
): readonly (readonly Unit[])[] {
  const columns: Unit[][] = [];
  for (const unit of units) {
    const rank = ranks.get(unit.id) ?? 0;
    while (columns.length <= rank) columns.push([]);
    columns[rank]?.push(unit);
  }
  const filled = columns.filter((column) => column.length > 0);
  for (const [index, column] of filled.entries()) {
    const before = filled[index - 1] ?? [];
    const middle = (unit: Unit): number => {
      const rows = before.flatMap(({ id }, row) =>
        links.get(id)?.has(unit.id) === true ? [row] : [],
      );
      return rows.length === 0 ? before.length : sum(rows) / rows.length;
    };
    const middles = new Map(column.map((unit) => [unit.id, middle(unit)]));
    column.sort((a, b) => (middles.get(a.id) ?? 0) - (middles.get(b.id) ?? 0));
  }
  return filled;
}

function heightOf({ members, frame }: Unit): number {
  const inner = members.length * NODE.height + (members.length - 1) * GAP.inner;
  return frame === undefined ? inner : inner + GAP.title + GAP.frame;
}

function place(
  unit: Unit,
  at: { readonly x: number; readonly y: number; readonly width: number },
  boxes: Map<string, Box>,
  frames: Frame[],
): void {
  const inset = (at.width - NODE.width) / 2;
  let y = at.y;
  if (unit.frame !== undefined) {
    const size = { width: NODE.width + 2 * GAP.frame, height: heightOf(unit) };
    frames.push({ id: unit.id, name: unit.frame, x: at.x + inset - GAP.frame, y, ...size });
    y += GAP.title;
  }
  for (const id of unit.members) {
    boxes.set(id, { id, x: at.x + inset, y, ...NODE });
    y += NODE.height + GAP.inner;
  }
}

function linesOf(
  edges: readonly EdgeShape[],
  boxes: ReadonlyMap<string, Box>,
  unitOf: ReadonlyMap<string, string>,
): Layout['lines'] {
  const lines: { id: string; path: string }[] = [];
  for (const { from, to, pipeline } of edges) {
    const [source, target] = [boxes.get(from), boxes.get(to)];
    if (source === undefined || target === undefined) continue;
    const isInside = unitOf.get(from) === unitOf.get(to);
    const path = isInside ? down(source, target) : across(source, target);
    lines.push({ id: `${from} ${to} ${pipeline}`, path });
  }
  return lines;
}

function down(from: Box, to: Box): string {
  const x = from.x + from.width / 2;
  return `M${x} ${from.y + from.height}L${x} ${to.y}`;
}

function across(from: Box, to: Box): string {
  const [x1, y1] = [from.x + from.width, from.y + from.height / 2];
  const [x2, y2] = [to.x, to.y + to.height / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
