import type { ComponentChildren, JSX } from 'preact';
import { path } from '../state/router.ts';
import { Link } from './link.tsx';
import { PageHead } from './page-head.tsx';
import './settings-head.css';

const PAGES = [
  { to: '/settings/projects', name: 'Projects' },
  { to: '/settings/keys', name: 'API keys' },
  { to: '/settings/usage', name: 'Usage' },
  { to: '/settings/audit', name: 'Audit' },
] as const;

type Props = {
  readonly title: string;
  readonly note?: ComponentChildren;
  readonly children?: ComponentChildren;
};

/** The links between the pages of the settings, and the heading of one of them. */
export function SettingsHead({ title, note, children }: Props): JSX.Element {
  return (
    <>
      <nav class="settings-nav" aria-label="Settings">
        {PAGES.map(({ to, name }) => (
          <Link key={to} to={to} {...(path.value === to ? { 'aria-current': 'page' } : {})}>
            {name}
          </Link>
        ))}
      </nav>
      <PageHead title={title} note={note}>
        {children}
      </PageHead>
    </>
  );
}
