import type { JSX } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import type { Trace } from '../../api/types.ts';
import { duration } from '../../parts/format.ts';
import type { VirtualListHandle } from '../../parts/virtual-list.tsx';
import { VirtualList } from '../../parts/virtual-list.tsx';
import { criticalPath, ownTimes } from './critical-path.ts';
import { ticksOf, timeScaleOf } from './time-scale.ts';
import { treeKey } from './tree-keys.ts';
import type { TreeLayout } from './tree-layout.ts';
import { observationAt } from './tree-layout.ts';
import { TreeRow } from './tree-row.tsx';
import { TreeTools } from './tree-tools.tsx';
import { expandedRows, matchingRows, nextError, slowestRows } from './visible-rows.ts';

type Props = {
  readonly trace: Trace;
  readonly layout: TreeLayout;
  /** The row of the observation in the panel. */
  readonly shown: number | undefined;
  readonly isNarrow: boolean;
  readonly onChoose: (id: string) => void;
};

const ROW_HEIGHT = 28;
/** The bar has a line of its own. */
const NARROW_ROW_HEIGHT = 46;
/** A panel beside the tree follows the keys after this pause. */
const FOLLOW_MS = 150;

/** The tree of a trace with its waterfall: a row is an observation, the one with the focus is the active one. */
export function Tree({ trace, layout, shown, isNarrow, onChoose }: Props): JSX.Element {
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  const [filter, setFilter] = useState('');
  const [activeId, setActiveId] = useState<string | undefined>(undefined);
  const list = useRef<VirtualListHandle>(undefined);
  const own = useId();
  const id = `tree${own}`;

  const critical = useMemo(() => criticalPath(layout), [layout]);
  const slowest = useMemo(() => slowestRows(ownTimes(layout)), [layout]);
  const scale = useMemo(() => timeScaleOf(trace, layout, Date.now()), [trace, layout]);
  const visible = useMemo(
    () => (filter.trim() === '' ? expandedRows(layout, collapsed) : matchingRows(layout, filter)),
    [layout, collapsed, filter],
  );
  const active = layout.rowOf.get(activeId ?? '') ?? shown ?? 0;
  const index = visible.indexOf[active] ?? -1;
  useFirstView(list, visible.indexOf[shown ?? -1] ?? -1);
  useFollow(isNarrow ? undefined : activeId, onChoose);

  /** Makes a row the active one, after opening what hides it. */
  const show = (row: number | undefined): void => {
    if (row === undefined) return;
    const above: string[] = [];
    for (let at = layout.parents[row] ?? -1; at >= 0; at = layout.parents[at] ?? -1) {
      above.push(observationAt(layout, at)?.id ?? '');
    }
    const isHidden = above.some((each) => collapsed.has(each));
    const open = isHidden
      ? new Set([...collapsed].filter((each) => !above.includes(each)))
      : collapsed;
    if (isHidden) setCollapsed(open);
    if (filter !== '' && (visible.indexOf[row] ?? -1) === -1) setFilter('');
    setActiveId(observationAt(layout, row)?.id);
    const next = isHidden ? expandedRows(layout, open) : visible;
    const target = next.indexOf[row] ?? -1;
    setTimeout(() => target >= 0 && list.current?.scrollTo(target), 0);
  };
  const toggle = (row: number): void => {
    const named = observationAt(layout, row)?.id ?? '';
    const next = new Set(collapsed);
    if (!next.delete(named)) next.add(named);
    setCollapsed(next);
  };
  const choose = (row: number): void => {
    const named = observationAt(layout, row)?.id;
    if (named === undefined) return;
    setActiveId(named);
    onChoose(named);
  };
  const jumpToSlowest = (): void => show(slowest[(slowest.indexOf(active) + 1) % slowest.length]);
  const jumpToError = (): void => show(nextError(layout, active));
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = treeKey(event.key, {
      ...{ layout, rows: visible.rows, index, active, isFiltered: filter !== '' },
      isCollapsed: collapsed.has(observationAt(layout, active)?.id ?? ''),
      ...{ show, toggle, choose, jumpToError, jumpToSlowest },
    });
    if (act === undefined) return;
    event.preventDefault();
    act();
  };

  const hasErrors = trace.error_count > 0 || nextError(layout, 0) !== undefined;
  return (
    <section class={isNarrow ? 'tree is-narrow' : 'tree'} aria-label="Observations">
      <TreeTools
        filter={filter}
        matches={visible.matches}
        onFilter={setFilter}
        onError={hasErrors ? jumpToError : undefined}
        onSlowest={slowest.length > 0 ? jumpToSlowest : undefined}
        onCollapse={() => setCollapsed(collapsed.size > 0 ? new Set() : branches(layout))}
        isCollapsed={collapsed.size > 0}
      />
      <Axis length={scale.length} most={isNarrow ? 4 : 5} />
      <VirtualList
        class="tree-rows"
        count={visible.rows.length}
        rowHeight={isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT}
        overscan={12}
        handle={list}
        attributes={{
          ...{
            id,
            role: 'tree',
            'aria-label': 'Observations of the trace',
            tabIndex: 0,
            onKeyDown,
          },
          ...(index < 0 ? {} : { 'aria-activedescendant': `${id}-${active}` }),
        }}
      >
        {(at) => {
          const row = visible.rows[at] ?? 0;
          return (
            <TreeRow
              id={`${id}-${row}`}
              layout={layout}
              row={row}
              scale={scale}
              criticalMs={critical[row] ?? Number.NaN}
              isActive={row === active}
              isShown={row === shown}
              isCollapsed={filter === '' && collapsed.has(observationAt(layout, row)?.id ?? '')}
              isTraceRunning={trace.state === 'running'}
              onChoose={choose}
              onToggle={toggle}
            />
          );
        }}
      </VirtualList>
      {visible.rows.length === 0 && <p class="tree-none muted">No observation matches.</p>}
    </section>
  );
}

/** Scrolls to the observation of the address once. */
function useFirstView(list: { current: VirtualListHandle | undefined }, index: number): void {
  const first = useRef(index);
  useEffect(() => {
    if (first.current > 0) list.current?.scrollTo(first.current, 'center');
  }, []);
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

function Axis({ length, most }: { readonly length: number; readonly most: number }): JSX.Element {
  return (
    <div class="axis" aria-hidden="true">
      <div class="axis-lane">
        {ticksOf(length, most).map((tick) => (
          <span key={tick} class="axis-tick" style={{ left: `${(tick / length) * 100}%` }}>
            {duration(tick)}
          </span>
        ))}
      </div>
      <span>Latency</span>
      <span>Tokens</span>
      <span>Cost</span>
    </div>
  );
}
