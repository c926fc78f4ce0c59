import './sums.css';
import type { ComponentChildren, JSX } from 'preact';

type Sum = {
  readonly name: string;
  readonly value: ComponentChildren;
  /** On hover: where the number comes from. */
  readonly note?: string;
};

/** Numbers with their names, in a row that wraps. */
export function Sums({ sums }: { readonly sums: readonly Sum[] }): JSX.Element {
  return (
    <dl class="sums">
      {sums.map(({ name, value, note }) => (
        <div key={name} title={note}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
