import './find-field.css';
import type { JSX } from 'preact';
import { query, setQuery } from '../state/router.ts';
import { LONG_LIST } from './find.ts';
import { grouped } from './format.ts';

type FieldProps = {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
};

/** A field that finds entries of a long list as a person types. */
export function FindField({ label, value, onChange }: FieldProps): JSX.Element {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder={label}
      autocomplete="off"
      spellcheck={false}
      value={value}
      onInput={({ currentTarget }) => onChange(currentTarget.value)}
    />
  );
}

/** The text that the address of the page finds entries by. */
export function wantedText(): string {
  return query.value.get('find') ?? '';
}

type BarProps = {
  readonly label: string;
  /** The entries that the text finds. */
  readonly found: number;
  readonly total: number;
};

/** The field above the table of a page, and how many entries it finds. A short table has none. */
export function FindBar({ label, found, total }: BarProps): JSX.Element | null {
  const wanted = wantedText();
  if (total <= LONG_LIST && wanted === '') return null;
  const find = (text: string): void => setQuery({ find: text }, { replace: true });
  return (
    <search class="find-bar">
      <FindField label={label} value={wanted} onChange={find} />
      <span class="muted" role="status">
        {wanted === '' ? grouped(total) : `${grouped(found)} of ${grouped(total)}`}
      </span>
    </search>
  );
}
