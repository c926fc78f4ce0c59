import type { TreeLayout } from './tree-layout.ts';

type KeyParts = {
  readonly layout: TreeLayout;
  /** The rows that a person sees. */
  readonly rows: Int32Array;
  /** Of the active row in `rows`; −1 if it is hidden. */
  readonly index: number;
  readonly active: number;
  readonly isCollapsed: boolean;
  /** With a filter nothing is collapsed. */
  readonly isFiltered: boolean;
  readonly show: (row: number | undefined) => void;
  readonly toggle: (row: number) => void;
  readonly choose: (row: number) => void;
  readonly jumpToError: () => void;
  readonly jumpToSlowest: () => void;
};

const PAGE = 20;

/** The action of a key in the tree; undefined if it has none. */
export function treeKey(key: string, parts: KeyParts): (() => void) | undefined {
  const { rows, index, show, choose, active, jumpToError, jumpToSlowest } = parts;
  const goTo = (to: number) => () => show(rows[Math.max(0, Math.min(to, rows.length - 1))]);
  switch (key) {
    case 'ArrowDown':
      return goTo(index + 1);
    case 'ArrowUp':
      return goTo(index - 1);
    case 'PageDown':
      return goTo(index + PAGE);
    case 'PageUp':
      return goTo(index - PAGE);
    case 'Home':
      return goTo(0);
    case 'End':
      return goTo(rows.length - 1);
    case 'Enter':
    case ' ':
      return () => choose(active);
    case 'e':
      return jumpToError;
    case 's':
      return jumpToSlowest;
    case 'ArrowRight':
      return openOrDown(parts);
    case 'ArrowLeft':
      return closeOrUp(parts);
    default:
      return undefined;
  }
}

function openOrDown(parts: KeyParts): (() => void) | undefined {
  const { layout, active, isCollapsed, isFiltered, show, toggle, rows, index } = parts;
  if ((layout.sizes[active] ?? 1) === 1) return undefined;
  if (isCollapsed && !isFiltered) return () => toggle(active);
  return () => show(rows[index + 1]);
}

function closeOrUp(parts: KeyParts): (() => void) | undefined {
  const { layout, active, isCollapsed, isFiltered, show, toggle } = parts;
  const isBranch = (layout.sizes[active] ?? 1) > 1;
  if (isBranch && !isCollapsed && !isFiltered) return () => toggle(active);
  const parent = layout.parents[active] ?? -1;
  return parent === -1 ? undefined : () => show(parent);
}
