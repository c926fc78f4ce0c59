import type { ComponentChildren, JSX } from 'preact';
import { useId } from 'preact/hooks';
import { indexAfter, ROW } from './arrow-keys.ts';

type Props<Name extends string> = {
  readonly label: string;
  readonly names: readonly Name[];
  readonly chosen: Name;
  readonly onChoose: (name: Name) => void;
  /** The panel of the chosen tab. */
  readonly children: ComponentChildren;
};

/** Tabs with one panel. Arrow keys, Home and End choose. */
export function Tabs<Name extends string>(props: Props<Name>): JSX.Element {
  const { label, names, chosen, onChoose, children } = props;
  const id = useId();
  const move = (event: KeyboardEvent): void => {
    const next = names[indexAfter(event.key, ROW, names.indexOf(chosen), names.length) ?? -1];
    if (next === undefined) return;
    event.preventDefault();
    onChoose(next);
    document.getElementById(`${id}-${next}`)?.focus();
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label={label} onKeyDown={move}>
        {names.map((name) => (
          <button
            key={name}
            id={`${id}-${name}`}
            type="button"
            role="tab"
            aria-selected={name === chosen}
            aria-controls={`${id}-panel`}
            tabIndex={name === chosen ? 0 : -1}
            onClick={() => onChoose(name)}
          >
            {name}
          </button>
        ))}
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a panel without a control scrolls by keyboard. */}
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`} tabIndex={0}>
        {children}
      </div>
    </div>
  );
}
