import type { JSX } from 'preact';

/** Outlines on a grid of 16. */
const PATHS = {
  logo: 'M2 4h10M4 8h10M6.5 12h5',
  traces: 'M2 4h9M4 8h9M6 12h7',
  sessions: 'M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z',
  users: 'M8 8a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 13.5c.6-2.4 2.6-3.5 5-3.5s4.4 1.1 5 3.5',
  dashboard: 'M2.5 13.500v-5M6.2 13.500v-8M9.9 13.500v-6M13.5 13.500v-11',
  rejected: 'M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 4.200l7.6 7.6',
  pipelines:
    'M2 5.500h3v-3h-3zM11 5.500h3v-3h-3zM6.5 13.500h3v-3h-3zM5 4h6M3.5 5.500v3h4.500v2M12.5 5.500v3H8',
  settings: 'M2 4.500h7M13 4.500h1M2 11.500h1M7 11.500h7M11 3v3M5 10v3',
  start: 'M5 3l7.5 5L5 13z',
  sun: 'M8 5.200a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.600zM8 1.500v1.500M8 13v1.500M1.5 8h1.500M13 8h1.500M3.4 3.400l1 1M11.6 11.600l1 1M3.4 12.600l1-1M11.6 4.400l1-1',
  moon: 'M13 9.500A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.500z',
  leave: 'M9.5 2.500h-6v11h6M7 8h7M11.5 5.500L14 8l-2.5 2.5',
  menu: 'M2 4h12M2 8h12M2 12h12',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  close: 'M4 4l8 8M12 4l-8 8',
  copy: 'M5.5 5.500h8v8h-8zM10.5 5.500v-3h-8v8h3',
  check: 'M3 8.500l3.5 3.500L13 4.5',
  search: 'M7 2.500a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.500l3.5 3.5',
  plus: 'M8 3v10M3 8h10',
  trash: 'M3 4.500h10M6 4.500v-2h4v2M4.5 4.500l.5 9h6l.5-9',
  download: 'M8 2.500v8M4.5 7.500L8 11l3.5-3.500M2.5 13.500h11',
  model: 'M8 2l1.500 4.500L14 8l-4.500 1.500L8 14l-1.500-4.500L2 8l4.500-1.500z',
  embedding: 'M3 3h3v3h-3zM10 3h3v3h-3zM3 10h3v3h-3zM10 10h3v3h-3z',
  tool: 'M10.500 2.500a3 3 0 0 0-3.500 4l-4.500 4.500 2.500 2.500 4.500-4.500a3 3 0 0 0 4-3.500l-2 1.500-1.500-1.500z',
  agent: 'M4 6.500h8v6h-8zM8 6.500v-3M6.500 9.500h.1M9.500 9.500h.1M2 8.500v2M14 8.500v2',
  chain: 'M3 4h4v3h-4zM9 9h4v3h-4zM5 7v3.500h4',
  evaluator: 'M3 13v-4M8 13v-9M13 13v-6.500M2 13.500h12',
  guardrail: 'M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6v-4z',
  event: 'M8 4.500a3.5 3.5 0 1 0 0 7 3.500 3.500 0 0 0 0-7z',
  span: 'M2.500 6h11v4h-11z',
  external: 'M9 3h4v4M13 3l-6 6M11 9.500v3.500h-8v-8h3.500',
  up: 'M4 10l4-4 4 4',
  running: 'M8 2.500a5.5 5.5 0 1 1-5.5 5.5M8 5.500v3l2 1.5',
  stop: 'M8 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM5.5 8h5',
  warning: 'M8 2.500l6 11H2zM8 6.500v3.500M8 11.500v.5',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.500M13 2.500v3h-3',
} as const;

export type IconName = keyof typeof PATHS;

/** A drawing beside a text; it has no name of its own. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
