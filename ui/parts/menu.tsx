import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { COLUMN, indexAfter } from './arrow-keys.ts';
import { isFound, LONG_LIST } from './find.ts';
import { FindField } from './find-field.tsx';
import { isolated } from './text-pieces.ts';

type Item = {
  readonly id: string;
  readonly label: string;
  readonly isChosen?: boolean;
  /** Why the item does nothing, if that is so. */
  readonly disabledBy?: string | undefined;
  readonly run: () => void;
};

type Props = {
  /** The accessible name of the button. */
  readonly label: string;
  readonly button: ComponentChildren;
  readonly items: readonly Item[];
  /** Any number of items may be chosen: the menu stays open for further ones. */
  readonly isMultiple?: boolean;
  /** The name of a field that finds items, which a long menu has. It leaves those in place that cannot be chosen. */
  readonly find?: string;
  readonly class?: string;
};

/** A button that opens a menu. Arrow keys, Home, End, Escape, Tab and the first letters of an item work as in every menu. */
export function Menu(props: Props): JSX.Element {
  const { label, button, class: className = '' } = props;
  const [isOpen, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);

  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const closeIfOutside = ({ target }: Event): void => {
      if (target instanceof Node && place.current?.contains(target) !== true) setOpen(false);
    };
    document.addEventListener('pointerdown', closeIfOutside);
    return () => document.removeEventListener('pointerdown', closeIfOutside);
  }, [isOpen]);

  const close = (): void => {
    setOpen(false);
    place.current?.querySelector('button')?.focus();
  };
  /** The focus goes elsewhere. A click on something that takes no focus is a matter of the pointer. */
  const closeIfLeft = ({ relatedTarget: next }: FocusEvent): void => {
    if (next instanceof Node && place.current?.contains(next) !== true) setOpen(false);
  };
  return (
    <div class={`menu ${className}`} ref={place} onFocusOut={closeIfLeft}>
      <button
        type="button"
        aria-label={label}
        title={isolated(label)}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {button}
      </button>
      {isOpen && <List {...props} close={close} />}
    </div>
  );
}

type ListProps = Props & { readonly close: () => void };

/** The open menu. */
function List({ label, items, isMultiple = false, find, close }: ListProps): JSX.Element {
  const [wanted, setWanted] = useState('');
  const list = useRef<HTMLDivElement>(null);
  const typed = useRef<Typed>({ text: '', at: 0 });
  const hasField = find !== undefined && items.length > LONG_LIST;
  const shown = items.filter(
    ({ isChosen, label: text, id }) =>
      isChosen === undefined || id === wanted.trim() || isFound(wanted, text),
  );
  const entries = (): HTMLButtonElement[] => [
    ...(list.current?.querySelectorAll<HTMLButtonElement>('[role^=menuitem]') ?? []),
  ];
  const field = (): HTMLInputElement | null => list.current?.querySelector('input') ?? null;

  useLayoutEffect(() => {
    const right = list.current?.getBoundingClientRect().right ?? 0;
    // A list that passes the right edge of the page opens to the left.
    if (right > document.documentElement.clientWidth) list.current?.classList.add('is-at-end');
    // The menu has the focus as soon as it shows: a key may follow at once.
    const all = entries();
    const chosen = all.find((each) => each.ariaChecked === 'true') ?? all[0];
    chosen?.focus();
    field()?.focus({ preventScroll: true });
  }, []);

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') closeOnly(event, close);
    // The browser goes on from the button: no item has a place of its own among the elements that Tab visits.
    if (event.key === 'Tab') close();
    const all = entries();
    if (field() !== null && isForField(event, all, field())) return;
    const next = indexAfter(event.key, COLUMN, focusedOf(all), all.length);
    const found = next ?? typedIndex(typed.current, event, all);
    if (found === undefined) return;
    event.preventDefault();
    all[found]?.focus();
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys of the field and of the items.
    <div ref={list} class="menu-list" onKeyDown={onKeyDown}>
      {hasField && <FindField label={find} value={wanted} onChange={setWanted} />}
      <div role="menu" tabIndex={-1} aria-label={label}>
        {shown.map((item) => (
          <button
            key={item.id}
            type="button"
            tabIndex={-1}
            {...roleOf(item, isMultiple)}
            title={item.disabledBy}
            aria-disabled={item.disabledBy !== undefined}
            onClick={() => {
              if (item.disabledBy !== undefined) return;
              if (!isMultiple) close();
              item.run();
            }}
          >
            {item.label}
          </button>
        ))}
      </div>
      {hasField && (
        <p class="muted" role="status">
          {shown.every(({ isChosen }) => isChosen === undefined) && 'Nothing is found'}
        </p>
      )}
    </div>
  );
}

/** Whether a key is one of the field above the items: it edits the text, or chooses the first item that the text finds. */
function isForField(
  event: KeyboardEvent,
  all: readonly HTMLButtonElement[],
  field: HTMLInputElement | null,
): boolean {
  const { key, ctrlKey, metaKey, altKey } = event;
  const isInside = event.target === field;
  if (key === 'ArrowUp' && focusedOf(all) === 0) {
    event.preventDefault();
    field?.focus();
    return true;
  }
  if (isInside && key === 'Enter' && field?.value.trim() !== '') {
    // The button has the focus next, and the same key would open the menu again.
    event.preventDefault();
    all.find((each) => each.ariaChecked !== null)?.click();
  }
  if (isInside) return key !== 'ArrowDown' && key !== 'ArrowUp';
  // A letter goes on with the text.
  const isText = (key.length === 1 && key !== ' ') || key === 'Backspace';
  if (isText && !ctrlKey && !metaKey && !altKey) field?.focus();
  return isText;
}

/** The role of an item, and whether it is chosen if that may be. */
function roleOf({ isChosen }: Item, isMultiple: boolean) {
  if (isChosen === undefined) return { role: 'menuitem' } as const;
  const role = isMultiple ? 'menuitemcheckbox' : 'menuitemradio';
  return { role, 'aria-checked': isChosen } as const;
}

/** Escape closes nothing around the menu. */
function closeOnly(event: Event, close: () => void): void {
  event.preventDefault();
  close();
}

/** The index of the item with the focus; −1 if none has it. */
function focusedOf(all: readonly Element[]): number {
  const { activeElement: focused } = document;
  return focused === null ? -1 : all.indexOf(focused);
}

/** The letters that were typed, and the time of the last one. */
type Typed = { text: string; at: number };
/** Milliseconds after which a letter begins another word. */
const WORD_MS = 700;

/** The next item that begins with the typed letters; the same letter again goes on to the one after it. */
function typedIndex(
  typed: Typed,
  { key, timeStamp, ctrlKey, metaKey, altKey }: KeyboardEvent,
  all: readonly HTMLButtonElement[],
): number | undefined {
  const isNew = timeStamp - typed.at > WORD_MS;
  const isLetter = key.length === 1 && !ctrlKey && !metaKey && !altKey;
  // Space chooses an item, except within a word.
  if (!isLetter || (key === ' ' && (isNew || typed.text === ''))) return undefined;
  typed.text = (isNew ? '' : typed.text) + key.toLowerCase();
  typed.at = timeStamp;
  const index = focusedOf(all);
  const isRepeated = [...typed.text].every((each) => each === typed.text[0]);
  const wanted = isRepeated ? (typed.text[0] ?? '') : typed.text;
  // A further letter of a word may leave the item, a first one goes on.
  const from = isRepeated ? index + 1 : Math.max(index, 0);
  const order = all.map((_, step) => (from + step) % all.length);
  const begins = (at: number): boolean =>
    all[at]?.textContent.trim().toLowerCase().startsWith(wanted) === true;
  return order.find(begins);
}
