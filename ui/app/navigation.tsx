import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../parts/icon.tsx';
import { Link } from '../parts/link.tsx';
import { path } from '../state/router.ts';
import { signOut } from '../state/session.ts';
import { nextTheme, theme } from '../state/theme.ts';
import { failed } from '../state/toasts.ts';
import { ProjectSwitcher } from './project-switcher.tsx';
import { SECTIONS } from './routes.ts';

/** The bar beside the page; on a narrow screen, a bar above it with a menu. */
export function Navigation(): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const here = path.value;
  useEffect(() => setOpen(false), [here]);

  const menu = useRef<HTMLButtonElement>(null);
  const closeOnEscape = ({ key, defaultPrevented }: KeyboardEvent): void => {
    if (key !== 'Escape' || defaultPrevented || !isOpen) return;
    setOpen(false);
    menu.current?.focus();
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: a key of what is in it.
    <header class={isOpen ? 'side is-open' : 'side'} onKeyDown={closeOnEscape}>
      {/* biome-ignore lint/a11y/useValidAnchor: it moves within the page, and leaves out the history only. */}
      <a class="skip" href="#page" onClick={skip}>
        Skip to the page
      </a>
      <div class="side-head">
        <Link to="/traces" class="brand" title="tracectl">
          <Icon name="logo" /> tracectl
        </Link>
        <button
          type="button"
          class="quiet menu-button"
          aria-label="Menu"
          ref={menu}
          aria-expanded={isOpen}
          onClick={() => setOpen(!isOpen)}
        >
          <Icon name="menu" />
        </button>
      </div>
      <ProjectSwitcher />
      <div class="side-body">
        <nav aria-label="Sections">
          {SECTIONS.map(({ path: to, name, icon }) => (
            <Link key={to} to={to} {...(isWithin(here, to) ? { 'aria-current': 'page' } : {})}>
              <Icon name={icon} /> {name}
            </Link>
          ))}
        </nav>
        <div class="side-foot">
          <Link to="/start">
            <Icon name="start" /> Get started
          </Link>
          <button type="button" class="quiet" aria-label="Theme" onClick={nextTheme}>
            <Icon name={theme.value === 'dark' ? 'moon' : 'sun'} />
            <span class="theme" data-theme-name={theme.value}>
              Theme
            </span>
          </button>
          <button type="button" class="quiet" onClick={() => void signOut().catch(failed)}>
            <Icon name="leave" /> Sign out
          </button>
        </div>
      </div>
    </header>
  );
}

/** Moves the focus only: the address is the state of the page, and an entry of the history would be one more Back. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.getElementById('page')?.focus();
}

function isWithin(here: string, section: string): boolean {
  const first = (of: string): string => of.split('/')[1] ?? '';
  return first(here) === first(section);
}
