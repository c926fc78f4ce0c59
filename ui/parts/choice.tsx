import type { JSX } from 'preact';
import { useId } from 'preact/hooks';
import './choice.css';

type Props<Name extends string> = {
  readonly label: string;
  readonly options: readonly { readonly name: Name; readonly label: string }[];
  readonly chosen: Name;
  readonly onChoose: (name: Name) => void;
};

/** One of a few values, all of them visible. Arrow keys choose. */
export function Choice<Name extends string>(props: Props<Name>): JSX.Element {
  const { label, options, chosen, onChoose } = props;
  const group = useId();
  return (
    <fieldset class="choice">
      <legend class="unseen">{label}</legend>
      {options.map(({ name, label: text }) => (
        <label key={name}>
          <input
            type="radio"
            name={group}
            checked={name === chosen}
            onChange={() => onChoose(name)}
          />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}
