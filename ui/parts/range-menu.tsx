import type { JSX } from 'preact';
import type { Range } from '../state/range.ts';
import { RANGES } from '../state/range.ts';
import { setQuery } from '../state/router.ts';
import { Menu } from './menu.tsx';

/** Chooses the range of time of the page; the address keeps it. */
export function RangeMenu({ range }: { readonly range: Range }): JSX.Element {
  return (
    <Menu
      label={`Range: ${range.label}`}
      button={range.label}
      items={RANGES.map(({ name, label }) => ({
        ...{ id: name, label, isChosen: name === range.name },
        run: () => setQuery({ range: name, from: undefined, to: undefined }),
      }))}
    />
  );
}
