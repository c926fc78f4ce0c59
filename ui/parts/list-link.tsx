import type { ComponentChildren, JSX } from 'preact';
import { mistakeOf } from '../state/terms.ts';
import { Link } from './link.tsx';
import { isolated } from './text-pieces.ts';

type Props = { readonly q: string; readonly children: ComponentChildren };

/** A value that leads to the list of the traces that have it. One that no query can hold, such as a very long one, is no link. */
export function ListLink({ q, children }: Props): JSX.Element {
  if (q === '' || mistakeOf(q) !== undefined) return <>{children}</>;
  return (
    <Link to="/traces" query={{ q, range: 'all' }} title={isolated(`Traces with ${q}`)}>
      {children}
    </Link>
  );
}
