import type { JSX } from 'preact';
import { useId, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { daemonNow } from '../../api/clock.ts';
import type { Trace } from '../../api/types.ts';
import { duration } from '../../parts/format.ts';
import { VirtualList } from '../../parts/virtual-list.tsx';
import { criticalPath } from './critical-path.ts';
import { ticksWithRoom, timeScaleOf } from './time-scale.ts';
import type { TreeLayout } from './tree-layout.ts';
import { observationAt } from './tree-layout.ts';
import { TreeRow } from './tree-row.tsx';
import { TreeTools } from './tree-tools.tsx';
import { useTree } from './use-tree.ts';

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

/** The tree of a trace with its waterfall: a row is an observation, the one with the focus is the active one. */
export function Tree(props: Props): JSX.Element {
  const { trace, layout, shown, isNarrow } = props;
  const id = `tree${useId()}`;
  const state = useTree(props);
  const { visible, active, collapsed, filter, list } = state;
  const critical = useMemo(() => criticalPath(layout), [layout]);
  const scale = useMemo(() => timeScaleOf(trace, layout, daemonNow()), [trace, layout]);
  const activeIndex = visible.indexOf[active] ?? -1;
  return (
    <section class={isNarrow ? 'tree is-narrow' : 'tree'} aria-label="Observations">
      <TreeTools
        filter={filter}
        matches={visible.matches}
        onFilter={state.setFilter}
        onError={state.jumpToError}
        onSlowest={state.jumpToSlowest}
        onCollapse={state.toggleAll}
        isCollapsed={collapsed.size > 0}
      />
      <Axis length={scale.length} />
      <VirtualList
        class="tree-rows"
        count={visible.rows.length}
        rowHeight={isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT}
        overscan={12}
        kept={activeIndex}
        handle={list}
        attributes={{
          ...{ id, role: 'tree', 'aria-label': 'Observations of the trace', tabIndex: 0 },
          onKeyDown: state.onKeyDown,
          ...(activeIndex === -1 ? {} : { 'aria-activedescendant': `${id}-${active}` }),
        }}
      >
        {(index) => {
          const row = visible.rows[index] ?? 0;
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
              onChoose={state.choose}
              onToggle={state.toggle}
            />
          );
        }}
      </VirtualList>
      {visible.rows.length === 0 && <p class="tree-none muted">No observation matches.</p>}
    </section>
  );
}

/** Pixels of a character, and of the line and the gap beside a label. */
const CHARACTER = 7;
const LABEL_GAP = 8;

function Axis({ length }: { readonly length: number }): JSX.Element {
  const lane = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = lane.current;
    if (element === null) return undefined;
    const measure = (): void => setWidth(element.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const widthOf = (tick: number): number => duration(tick).length * CHARACTER + LABEL_GAP;
  return (
    <div class="axis" aria-hidden="true">
      <div class="axis-lane" ref={lane}>
        {ticksWithRoom(length, width, widthOf).map((tick) => (
          <span key={tick} class="axis-tick" style={{ left: `${(tick / length) * 100}%` }}>
            {/* The edge would cut it. */}
            {(tick / length) * width + widthOf(tick) <= width && duration(tick)}
          </span>
        ))}
      </div>
      <span>Latency</span>
      <span>Tokens</span>
      <span>Cost</span>
    </div>
  );
}
