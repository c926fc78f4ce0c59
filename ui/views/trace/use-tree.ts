import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { VirtualListHandle } from '../../parts/virtual-list.tsx';
import { ownTimes } from './critical-path.ts';
import { treeKey } from './tree-keys.ts';
import type { TreeLayout } from './tree-layout.ts';
import { observationAt } from './tree-layout.ts';
import type { Visible } from './visible-rows.ts';
import { expandedRows, matchingRows, nextError, slowestRows } from './visible-rows.ts';

type Parts = {
  readonly layout: TreeLayout;
  /** The row of the observation in the panel. */
  readonly shown: number | undefined;
  readonly isNarrow: boolean;
  readonly onChoose: (id: string) => void;
};

/** The state of a tree, and what a person can do with it. */
export type TreeState = {
  readonly list: { current: VirtualListHandle | undefined };
  readonly visible: Visible;
  /** The row that the keys start from. */
  readonly active: number;
  /** The ids of collapsed observations. */
  readonly collapsed: ReadonlySet<string>;
  readonly filter: string;
  setFilter(text: string): void;
  choose(row: number): void;
  toggle(row: number): void;
  /** Undefined if there is nothing to collapse or to expand. */
  readonly toggleAll: (() => void) | undefined;
  /** Undefined if no observation failed. */
  readonly jumpToError: (() => void) | undefined;
  readonly jumpToSlowest: (() => void) | undefined;
  onKeyDown(event: KeyboardEvent): void;
};

/** A panel beside the tree follows the keys after this pause. */
const FOLLOW_MS = 150;

export function useTree({ layout, shown, isNarrow, onChoose }: Parts): TreeState {
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const [filter, setFilter] = useState('');
  const [activeId, setActiveId] = useState<string | undefined>(undefined);
  const list = useRef<VirtualListHandle>(undefined);
  /** The last jump's place among the slowest rows. */
  const place = useRef(-1);
  const visible = useMemo(
    () => (filter.trim() === '' ? expandedRows(layout, collapsed) : matchingRows(layout, filter)),
    [layout, collapsed, filter],
  );
  const slowest = useMemo(() => slowestRows(ownTimes(layout)), [layout]);
  const closable = useMemo(() => branches(layout), [layout]);
  const hasErrors = useMemo(() => nextError(layout, 0) !== undefined, [layout]);
  const chosen = layout.rowOf.get(activeId ?? '') ?? shown ?? 0;
  const active = shownRow(layout, visible, chosen);
  useFirstView(list, visible.indexOf[shown ?? -1] ?? -1);
  useEmptied(list, filter.trim() !== '', visible.indexOf[active] ?? -1);
  useFollow(isNarrow ? undefined : activeId, onChoose);

  /** Makes a row the active one, after opening what hides it. */
  const show = (row: number | undefined, align: 'auto' | 'center' = 'auto'): void => {
    if (row === undefined) return;
    setActiveId(observationAt(layout, row)?.id);
    let shownRows = visible;
    if ((visible.indexOf[row] ?? -1) === -1) {
      const open = withoutAncestors(layout, row, collapsed);
      setCollapsed(open);
      setFilter('');
      shownRows = expandedRows(layout, open);
    }
    const target = shownRows.indexOf[row] ?? -1;
    // The list has its new rows after the next render.
    setTimeout(() => list.current?.scrollTo(target, align), 0);
  };
  const toggle = (row: number): void => {
    const id = observationAt(layout, row)?.id ?? '';
    const next = new Set(collapsed);
    if (!next.delete(id)) next.add(id);
    setCollapsed(next);
  };
  const choose = (row: number): void => {
    const id = observationAt(layout, row)?.id;
    if (id === undefined) return;
    setActiveId(id);
    onChoose(id);
  };
  const toggleAll = (): void => setCollapsed(collapsed.size > 0 ? new Set() : closable);
  const jumpToError = (): void => show(nextError(layout, active), 'center');
  const jumpToSlowest = (): void => {
    const isRepeated = slowest[place.current] === active;
    place.current = isRepeated ? (place.current + 1) % slowest.length : 0;
    show(slowest[place.current], 'center');
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const index = visible.indexOf[active] ?? -1;
    const isCollapsed = collapsed.has(observationAt(layout, active)?.id ?? '');
    const act = treeKey(event.key, {
      ...{ layout, rows: visible.rows, index, active, isCollapsed, isFiltered: filter !== '' },
      ...{ show, toggle, choose, jumpToError, jumpToSlowest },
    });
    if (act === undefined) return;
    event.preventDefault();
    act();
  };
  return {
    ...{ list, visible, active, collapsed, filter, setFilter },
    ...{ choose, toggle, onKeyDown },
    toggleAll: collapsed.size + closable.size > 0 ? toggleAll : undefined,
    jumpToError: hasErrors ? jumpToError : undefined,
    jumpToSlowest: slowest.length > 0 ? jumpToSlowest : undefined,
  };
}

/** The row, or the one above it that hides it; the row itself if a filter hides both. */
function shownRow(layout: TreeLayout, { indexOf }: Visible, row: number): number {
  let at = row;
  while (at >= 0 && indexOf[at] === -1) at = layout.parents[at] ?? -1;
  return at >= 0 ? at : row;
}

/** The collapsed observations without those above a row. */
function withoutAncestors(
  layout: TreeLayout,
  row: number,
  collapsed: ReadonlySet<string>,
): ReadonlySet<string> {
  const left = new Set(collapsed);
  for (let at = layout.parents[row] ?? -1; at >= 0; at = layout.parents[at] ?? -1) {
    left.delete(observationAt(layout, at)?.id ?? '');
  }
  return left;
}

/** Scrolls to the observation of the address once. */
function useFirstView(list: { current: VirtualListHandle | undefined }, index: number): void {
  const first = useRef(index);
  useEffect(() => {
    if (first.current > 0) list.current?.scrollTo(first.current, 'center');
  }, []);
}

/** Scrolls to the active row, among the rows around it, when the filter is emptied. */
function useEmptied(
  list: { current: VirtualListHandle | undefined },
  isFiltered: boolean,
  index: number,
): void {
  const wasFiltered = useRef(isFiltered);
  useEffect(() => {
    if (wasFiltered.current && !isFiltered) list.current?.scrollTo(index, 'center');
    wasFiltered.current = isFiltered;
  }, [isFiltered]);
}

/** Chooses an observation that stays the active one for a moment. */
function useFollow(id: string | undefined, onChoose: (id: string) => void): void {
  useEffect(() => {
    if (id === undefined) return undefined;
    const timer = setTimeout(() => onChoose(id), FOLLOW_MS);
    return () => clearTimeout(timer);
  }, [id]);
}

/** The ids of rows with children, except for roots. */
function branches(layout: TreeLayout): Set<string> {
  const ids = new Set<string>();
  for (let row = 0; row < layout.order.length; row++) {
    const isBranch = (layout.sizes[row] ?? 1) > 1 && (layout.depths[row] ?? 0) > 0;
    if (isBranch) ids.add(observationAt(layout, row)?.id ?? '');
  }
  return ids;
}
