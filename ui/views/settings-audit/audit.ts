import type { Audit } from '../../api/types.ts';
import { isolated } from '../../parts/text-pieces.ts';

type Entry = Audit['audit'][number];

const ACTIONS: Readonly<Record<string, string>> = {
  'organization.update': 'Changed the organization',
  'project.create': 'Created a project',
  'project.update': 'Changed a project',
  'project.delete': 'Deleted a project',
  'key.create': 'Created a key',
  'key.revoke': 'Revoked a key',
  'payloads.read': 'Read payloads',
  'scores.write': 'Wrote a score',
  'erasure.create': 'Asked for an erasure',
  'erasure.finish': 'Finished an erasure',
  'ui_code.create': 'Made a link that signs in',
  'ui_session.create': 'Signed in to these pages',
  'ui_session.end': 'Ended a sign-in',
  'dead_letters.replay': 'Replayed dead letters',
  'dead_letters.drop': 'Dropped dead letters',
};

/** The action as a sentence; an unknown one as it is. */
export function actionText(action: string): string {
  return Object.hasOwn(ACTIONS, action) ? (ACTIONS[action] ?? action) : action;
}

/** `name: staging, days: 30`; null is `none`. */
export function detailsText({ details }: Pick<Entry, 'details'>): string {
  return Object.entries(details)
    .map(([name, value]) => `${name.replaceAll('_', ' ')}: ${isolated(String(value ?? 'none'))}`)
    .join(', ');
}

/** The places of docs/privacy.md. */
const COPIES: Readonly<Record<string, string>> = {
  file_exporter: 'files that the file exporter wrote',
  downstream: 'collectors and services that an exporter delivered to',
  backups: 'copies of the data directory or the database',
  other_processes: 'queues of other processes, until they are delivered',
  redis_log: 'the append-only file of Redis, until Redis rewrites it',
  salvaged_files: 'damaged files that tracectl salvage or a start kept',
  unused_space: 'unused space of the SQLite file, from rows that moved, until a VACUUM',
  write_ahead_log: 'the log of Postgres, its replicas and archives',
  dead_rows: 'pages of Postgres, until a VACUUM frees them and later rows overwrite them',
};

/** The place of a copy that an erasure does not reach; an unknown one as it is. */
export function copyText(place: string): string {
  return Object.hasOwn(COPIES, place) ? (COPIES[place] ?? place) : place;
}

const BROWSERS: readonly (readonly [string, RegExp])[] = [
  ['Edge', /Edg\/(\d+)/],
  ['Opera', /OPR\/(\d+)/],
  ['Firefox', /Firefox\/(\d+)/],
  ['Chrome', /Chrom(?:e|ium)\/(\d+)/],
  ['Safari', /Version\/(\d+).* Safari\//],
];
const SYSTEMS: readonly (readonly [string, RegExp])[] = [
  ['Android', /Android/],
  ['iOS', /iPhone|iPad/],
  ['Windows', /Windows/],
  ['macOS', /Mac OS X/],
  ['Linux', /Linux|X11/],
];

/** `Chrome 151, Linux` of a user agent; the whole text if it has another form. */
export function browserText(agent: string | null): string {
  if (agent === null || agent === '') return 'unknown browser';
  for (const [name, pattern] of BROWSERS) {
    const version = pattern.exec(agent)?.[1];
    if (version === undefined) continue;
    const system = SYSTEMS.find(([, each]) => each.test(agent))?.[0];
    return system === undefined ? `${name} ${version}` : `${name} ${version}, ${system}`;
  }
  return agent;
}
