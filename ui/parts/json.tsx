import type { JSX } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { copyText } from '../state/clipboard.ts';
import { done, failed } from '../state/toasts.ts';
import { bytes } from './format.ts';
import { Icon } from './icon.tsx';
import './json.css';
import type { JsonNode, JsonRow } from './json-tree.ts';
import {
  canOpen,
  copiedText,
  findInJson,
  isBranch,
  isLongText,
  jsonDocument,
  MATCHES,
  pathOf,
  reveal,
  rowsOf,
  SHORT_TEXT,
  summaryOf,
} from './json-tree.ts';
import { beginning, visible } from './text-pieces.ts';
import type { VirtualListHandle } from './virtual-list.tsx';
import { VirtualList } from './virtual-list.tsx';

type Props = {
  readonly value: unknown;
  /** The accessible name of the tree. */
  readonly label: string;
};

const ROW_HEIGHT = 22;
/** Rows without a box that scrolls. */
const MOST_ROWS = 24;
const INDENT = 14;
/** Deeper values are not indented further: they show their depth. */
const DEEPEST_INDENT = 16;
/** About the width of a character of the font. */
const CHARACTER = 7.3;

/** JSON as a tree that folds: only the rows in view are in the document, so its size does not matter. */
export function Json({ value, label }: Props): JSX.Element {
  const root = useMemo(() => jsonDocument(value), [value]);
  const [version, setVersion] = useState(0);
  const [chosen, setActive] = useState(0);
  const [columns, place] = useColumns();
  const rows = useMemo(() => rowsOf(root, columns), [root, version, columns]);
  // Another value, or longer lines, may have fewer rows.
  const active = Math.min(chosen, rows.length - 1);
  const list = useRef<VirtualListHandle>(undefined);
  const id = useId();
  const change = (): void => setVersion((before) => before + 1);

  const goTo = (index: number): void => {
    const next = Math.max(0, Math.min(index, rows.length - 1));
    setActive(next);
    list.current?.scrollTo(next);
  };
  const show = (found: JsonNode): void => {
    const node = reveal(root, found);
    change();
    const index = rowsOf(root, columns).findIndex((row) => row.node === node);
    setActive(index);
    // The list has its new rows after the next render.
    setTimeout(() => list.current?.scrollTo(index, 'center'), 0);
  };
  const toggle = (node: JsonNode): void => {
    node.isOpen = !node.isOpen;
    // The row of a text's line, or of an end, goes with the open value.
    setActive(rows.findIndex((row) => row.node === node));
    change();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const node = rows[active]?.node;
    if (node === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keyAction(event.key, node, { rows, active, goTo, toggle });
    if (act === undefined) return;
    event.preventDefault();
    act();
  };

  return (
    <div class="json" ref={place}>
      <JsonSearch root={root} onShow={show} node={rows[active]?.node ?? root} />
      <VirtualList
        class="json-rows"
        count={rows.length}
        rowHeight={ROW_HEIGHT}
        kept={active}
        handle={list}
        attributes={{
          role: 'tree',
          'aria-label': label,
          tabIndex: 0,
          'aria-activedescendant': `${id}-${active}`,
          onKeyDown,
          style: { height: `${Math.min(rows.length, MOST_ROWS) * ROW_HEIGHT + 10}px` },
        }}
      >
        {(index) => {
          const row = rows[index];
          if (row === undefined) return null;
          const choose = (): void => {
            if (row.type === 'value' && canOpen(row.node)) toggle(row.node);
            else setActive(index);
          };
          return (
            <Row row={row} id={`${id}-${index}`} isActive={index === active} onChoose={choose} />
          );
        }}
      </VirtualList>
    </div>
  );
}

type KeyParts = {
  readonly rows: readonly JsonRow[];
  readonly active: number;
  readonly goTo: (index: number) => void;
  readonly toggle: (node: JsonNode) => void;
};

function keyAction(
  key: string,
  node: JsonNode,
  { rows, active, goTo, toggle }: KeyParts,
): (() => void) | undefined {
  const moves: Readonly<Record<string, number>> = {
    ...{ ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: rows.length - 1 },
    ...{ PageDown: active + 20, PageUp: active - 20 },
  };
  const target = moves[key];
  if (target !== undefined) return () => goTo(target);
  if (key === 'Enter' && canOpen(node)) return () => toggle(node);
  if (key === 'ArrowRight' && canOpen(node)) {
    return node.isOpen ? () => goTo(active + 1) : () => toggle(node);
  }
  if (key === 'ArrowLeft') {
    if (node.isOpen) return () => toggle(node);
    return () => goTo(rows.findIndex((row) => row.node === node.parent));
  }
  return undefined;
}

/** The characters of a line, from the width of the place. */
function useColumns(): [number, (element: HTMLElement | null) => void] {
  const [columns, setColumns] = useState(100);
  const [element, place] = useState<HTMLElement | null>(null);
  useEffect(() => {
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      const fits = Math.floor((element.clientWidth - 80) / CHARACTER);
      setColumns(Math.max(20, Math.min(fits, 400)));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return [columns, place];
}

type SearchProps = {
  readonly root: JsonNode;
  /** The value whose path and text the buttons copy. */
  readonly node: JsonNode;
  readonly onShow: (node: JsonNode) => void;
};

function JsonSearch({ root, node, onShow }: SearchProps): JSX.Element {
  const [text, setText] = useState('');
  const [at, setAt] = useState(-1);
  const place = useRef<HTMLDivElement>(null);
  const found = useMemo(() => findInJson(root, text), [root, text]);
  const step = (by: number): void => {
    if (found.length === 0) return;
    const next = (at + by + found.length) % found.length;
    const target = found[next];
    setAt(next);
    if (target !== undefined) onShow(target);
  };
  const copy = async (what: string, copied: string): Promise<void> => {
    try {
      await copyText(copied, place.current);
      done(`${what} copied.`);
    } catch {
      failed(new Error('The browser does not allow copying here.'));
    }
  };
  const count = found.length === MATCHES ? `${MATCHES}+` : String(found.length);
  return (
    <div class="json-tools" ref={place}>
      <input
        type="search"
        aria-label="Search in JSON"
        placeholder="Search keys and values"
        value={text}
        onInput={({ currentTarget }) => {
          setText(currentTarget.value);
          setAt(-1);
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
        }}
      />
      {text.trim() !== '' && (
        <span class="muted json-count" role="status">
          {at === -1 ? count : `${at + 1} of ${count}`}
        </span>
      )}
      <button type="button" class="quiet" onClick={() => void copy('Path', pathOf(node))}>
        Copy path
      </button>
      <button
        type="button"
        class="quiet"
        onClick={() => void copy('Value', copiedText(node.value))}
      >
        Copy value
      </button>
    </div>
  );
}

type RowProps = {
  readonly row: JsonRow;
  readonly id: string;
  readonly isActive: boolean;
  readonly onChoose: () => void;
};

function Row({ row, id, isActive, onChoose }: RowProps): JSX.Element {
  const { node, type } = row;
  const depth = node.depth + (type === 'line' ? 1 : 0);
  const opens = type === 'value' && canOpen(node);
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys.
    // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus.
    <div
      id={id}
      class={isActive ? 'json-row is-active' : 'json-row'}
      role="treeitem"
      aria-level={node.depth + 1}
      aria-selected={isActive}
      {...(opens ? { 'aria-expanded': node.isOpen } : {})}
      style={{ paddingLeft: `${Math.min(depth, DEEPEST_INDENT) * INDENT + 4}px` }}
      onClick={onChoose}
    >
      <span class="json-fold" aria-hidden="true">
        {opens && <Icon name={node.isOpen ? 'down' : 'right'} />}
      </span>
      {type === 'value' && node.depth > DEEPEST_INDENT && (
        <span class="json-depth">{node.depth}</span>
      )}
      {type === 'value' && node.key !== undefined && (
        <>
          <span class="json-key">{visible(beginning(String(node.key), 80))}</span>
          <span class="json-mark">: </span>
        </>
      )}
      {type === 'line' ? <span class="json-string">{visible(row.text)}</span> : <Value row={row} />}
    </div>
  );
}

function Value({ row: { node, type } }: { readonly row: JsonRow }): JSX.Element {
  const { value, isOpen } = node;
  if (typeof value === 'object' && value !== null) {
    const [open, close] = Array.isArray(value) ? '[]' : '{}';
    if (type === 'end') return <span class="json-mark">{close}</span>;
    if (isOpen) return <span class="json-mark">{open}</span>;
    return (
      <span class="json-mark">
        {open}
        {isBranch(value) && <span class="json-summary">{visible(summaryOf(value))}</span>}
        {close}
      </span>
    );
  }
  if (typeof value !== 'string') return <span class="json-literal">{String(value)}</span>;
  const size = isLongText(value) && <span class="json-size">{bytes(value.length)}</span>;
  if (isOpen) return <span class="json-mark">{size}</span>;
  return (
    <>
      <span class="json-string">{visible(JSON.stringify(beginning(value, SHORT_TEXT)))}</span>
      {size}
    </>
  );
}
