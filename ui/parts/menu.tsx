import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

type Item = {
  readonly id: string;
  readonly label: string;
  readonly isChosen?: boolean;
  readonly run: () => void;
};

type Props = {
  /** The accessible name of the button. */
  readonly label: string;
  readonly button: ComponentChildren;
  readonly items: readonly Item[];
  readonly class?: string;
};

/** A button that opens a menu. Arrow keys, Home, End and Escape work as in every menu. */
export function Menu({ label, button, items, class: className = '' }: Props): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const entries = (): HTMLButtonElement[] => [
    ...(place.current?.querySelectorAll<HTMLButtonElement>('[role^=menuitem]') ?? []),
  ];

  // A list that passes the right edge of the page opens to the left.
  useLayoutEffect(() => {
    const right = list.current?.getBoundingClientRect().right ?? 0;
    if (right > document.documentElement.clientWidth) list.current?.classList.add('is-at-end');
  }, [isOpen]);

  // The menu has the focus as soon as it shows: a key may follow at once.
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    const all = entries();
    (all.find((each) => each.ariaChecked === 'true') ?? all[0])?.focus();
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
  /** Tab leaves the menu. A click on something that takes no focus is a matter of the pointer. */
  const closeIfLeft = ({ relatedTarget: next }: FocusEvent): void => {
    if (next instanceof Node && place.current?.contains(next) !== true) setOpen(false);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') {
      // It closes nothing around the menu.
      event.preventDefault();
      close();
    }
    const all = entries();
    const { activeElement: focused } = document;
    const index = focused instanceof HTMLButtonElement ? all.indexOf(focused) : -1;
    const next = nextIndex(event.key, index, all.length);
    if (next === undefined) return;
    event.preventDefault();
    all[next]?.focus();
  };

  return (
    <div class={`menu ${className}`} ref={place} onFocusOut={closeIfLeft}>
      <button
        type="button"
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      >
        {button}
      </button>
      {isOpen && (
        <div
          ref={list}
          class="menu-list"
          role="menu"
          tabIndex={-1}
          aria-label={label}
          onKeyDown={onKeyDown}
        >
          {items.map(({ id, label: text, isChosen, run }) => (
            <button
              key={id}
              type="button"
              role={isChosen === undefined ? 'menuitem' : 'menuitemradio'}
              {...(isChosen === undefined ? {} : { 'aria-checked': isChosen })}
              onClick={() => {
                close();
                run();
              }}
            >
              {text}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}

function nextIndex(key: string, index: number, count: number): number | undefined {
  if (key === 'ArrowDown') return (index + 1) % count;
  if (key === 'ArrowUp') return (index + count - 1) % count;
  if (key === 'Home') return 0;
  if (key === 'End') return count - 1;
  return undefined;
}
