import type { Range } from '@tanstack/virtual-core';
import {
  defaultRangeExtractor,
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
} from '@tanstack/virtual-core';
import type { ComponentChildren, HTMLAttributes, JSX, RefObject } from 'preact';
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';

type Options = {
  readonly count: number;
  /** Pixels; an estimate if the rows are measured. */
  readonly rowHeight: number;
  /** The element that scrolls. */
  readonly scroller: RefObject<HTMLElement | null>;
  /** Rows beyond both edges that are in the document too. */
  readonly overscan?: number;
  /** Pixels between the top of what scrolls and the first row. */
  readonly margin?: number;
  /** A row that is always in the document, because an attribute names it. */
  readonly kept?: number;
  /** Keeps what is known of a row when its index changes. */
  readonly keyOf?: (index: number) => string | number;
};

type Row = {
  readonly index: number;
  readonly key: string | number;
  /** Pixels from the top of the list. */
  readonly start: number;
};

type VirtualRows = {
  /** The rows to show now. */
  readonly rows: readonly Row[];
  /** Pixels of all rows. */
  readonly height: number;
  /** Brings a row into view. */
  readonly scrollTo: (index: number, align?: 'auto' | 'center' | 'start') => void;
  /** The `ref` of a row with a height of its own; the row has the attribute `data-index`. */
  readonly measure: (element: Element | null) => void;
};

type Settings = ConstructorParameters<typeof Virtualizer<HTMLElement, Element>>[0];

/** The rows of a long list that are in view: the document holds no others. */
function useVirtualRows(options: Options): VirtualRows {
  const [, render] = useState(0);
  const own = useRef<Virtualizer<HTMLElement, Element> | undefined>(undefined);
  const settings = settingsOf(options, () => render((before) => before + 1));
  own.current ??= new Virtualizer(settings);
  const virtualizer = own.current;
  virtualizer.setOptions(settings);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());

  const scrollTo = useCallback<VirtualRows['scrollTo']>(
    (index, align = 'auto') => virtualizer.scrollToIndex(index, { align }),
    [],
  );
  const { margin = 0 } = options;
  return {
    rows: virtualizer.getVirtualItems().map(({ index, key, start }) => ({
      index,
      key: typeof key === 'bigint' ? String(key) : key,
      start: start - margin,
    })),
    height: virtualizer.getTotalSize(),
    scrollTo,
    measure: virtualizer.measureElement,
  };
}

function settingsOf(options: Options, onChange: () => void): Settings {
  const { count, rowHeight, scroller, overscan = 8, margin = 0, kept, keyOf } = options;
  return {
    count,
    overscan,
    scrollMargin: margin,
    estimateSize: () => rowHeight,
    ...(keyOf === undefined ? {} : { getItemKey: keyOf }),
    ...(kept === undefined || kept < 0 || kept >= count ? {} : { rangeExtractor: withRow(kept) }),
    getScrollElement: () => scroller.current,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange,
  };
}

/** The rows in view, and one more. */
function withRow(kept: number): (range: Range) => number[] {
  return (range) => {
    const inView = defaultRangeExtractor(range);
    return inView.includes(kept) ? inView : [...inView, kept];
  };
}

export type VirtualListHandle = Pick<VirtualRows, 'scrollTo'>;

type Props = Omit<Options, 'scroller' | 'margin'> & {
  readonly class?: string;
  /** Gets the means to scroll to a row. */
  readonly handle?: RefObject<VirtualListHandle | undefined>;
  /** Attributes of the element that scrolls: role, name, key handlers. */
  readonly attributes?: HTMLAttributes<HTMLDivElement>;
  /** Whether rows have heights of their own. */
  readonly isMeasured?: boolean;
  readonly children: (index: number) => ComponentChildren;
};

/** Rows that are kept in memory. */
const KEPT_ROWS = 500;

/** A list that scrolls in a box of its own; its style gives the height. */
export function VirtualList(props: Props): JSX.Element {
  const { class: className = '', attributes, handle, isMeasured = false, children } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const { rows, height, scrollTo, measure } = useVirtualRows({ ...props, scroller });
  // While the list scrolls, a row keeps its element: Preact skips what is the same.
  const kept = useMemo(() => new Map<number, ComponentChildren>(), [children]);
  if (kept.size > KEPT_ROWS) kept.clear();
  const rowAt = (index: number): ComponentChildren => {
    const row = kept.get(index) ?? children(index);
    kept.set(index, row);
    return row;
  };
  useEffect(() => {
    if (handle !== undefined) handle.current = { scrollTo };
  }, [handle]);
  return (
    <div {...attributes} class={`virtual ${className}`} ref={scroller}>
      <div class="virtual-rows" role="presentation" style={{ height: `${height}px` }}>
        {rows.map(({ index, key, start }) => (
          <div
            key={key}
            class="virtual-row"
            role="presentation"
            data-index={index}
            ref={isMeasured ? measure : null}
            style={{ transform: `translateY(${start}px)` }}
          >
            {rowAt(index)}
          </div>
        ))}
      </div>
    </div>
  );
}
