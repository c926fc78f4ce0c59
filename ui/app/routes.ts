import type { ComponentType } from 'preact';
import { matchPattern } from '../state/router.ts';

/** The parameters of the page's path. */
export type ViewProps = { readonly params: Readonly<Record<string, string>> };

type View = ComponentType<ViewProps>;
type Route = {
  readonly pattern: string;
  readonly load: () => Promise<{ readonly View: View }>;
  /** The page is about all projects, whichever one the address has. */
  readonly isOfAll?: boolean;
};

const loadProjectSettings: Route['load'] = () => import('../views/settings-projects/view.tsx');

/** Every page, in the order of matching. The code of a page loads when it opens. */
const ROUTES: readonly Route[] = [
  { pattern: '/', load: () => import('../views/home/view.tsx') },
  { pattern: '/start', load: () => import('../views/start/view.tsx') },
  { pattern: '/traces', load: () => import('../views/traces/view.tsx') },
  { pattern: '/traces/:id', load: () => import('../views/trace/view.tsx') },
  { pattern: '/sessions', load: () => import('../views/sessions/view.tsx') },
  { pattern: '/sessions/:id', load: () => import('../views/session/view.tsx') },
  { pattern: '/users', load: () => import('../views/users/view.tsx') },
  { pattern: '/users/:id', load: () => import('../views/user/view.tsx') },
  { pattern: '/dashboard', load: () => import('../views/dashboard/view.tsx') },
  { pattern: '/rejected', load: () => import('../views/rejected/view.tsx') },
  { pattern: '/pipelines', load: () => import('../views/pipelines/view.tsx'), isOfAll: true },
  { pattern: '/settings', load: loadProjectSettings, isOfAll: true },
  { pattern: '/settings/projects', load: loadProjectSettings, isOfAll: true },
  { pattern: '/settings/keys', load: () => import('../views/settings-keys/view.tsx') },
  { pattern: '/settings/usage', load: () => import('../views/settings-usage/view.tsx') },
  { pattern: '/settings/audit', load: () => import('../views/settings-audit/view.tsx') },
];

/** The first page of each section, in the order of the navigation. */
export const SECTIONS = [
  { path: '/traces', name: 'Traces', icon: 'traces' },
  { path: '/sessions', name: 'Sessions', icon: 'sessions' },
  { path: '/users', name: 'Users', icon: 'users' },
  { path: '/dashboard', name: 'Dashboard', icon: 'dashboard' },
  { path: '/rejected', name: 'Rejected', icon: 'rejected' },
  { path: '/pipelines', name: 'Pipelines', icon: 'pipelines' },
  { path: '/settings/projects', name: 'Settings', icon: 'settings' },
] as const;

/** The page of a path; undefined if there is none. */
export function routeOf(path: string): (Route & ViewProps) | undefined {
  for (const route of ROUTES) {
    const params = matchPattern(route.pattern, path);
    if (params !== undefined) return { ...route, params };
  }
  return undefined;
}
