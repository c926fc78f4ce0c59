import { DAY_MS, DAYS, NAMES } from './data.ts';

/** A request that is measured again and again. */
export type ReadingCase = {
  readonly name: string;
  /** Relative to `/api/v1`. */
  readonly path: string;
  /** Further pages that are read by the cursor, and measured as one case. */
  readonly pages?: number;
  /** Milliseconds of CPU: of the slowest hundredth of lists, and of the mean of all else, as the targets were set. */
  readonly target?: number;
  readonly isP99?: boolean;
};

const LIST_TARGET = { target: 100, isP99: true };
const SUMS_MS = 50;
const TREE_MS = 150;

const [USER = '', OTHER_USER = ''] = NAMES.users;
const [SESSION = ''] = NAMES.sessions;
const [NAME = ''] = NAMES.traces;
const [TOOL = ''] = NAMES.tools;

/** Filters of §2 of the query language, each with what it is about. */
const FILTERS: readonly string[] = [
  ...[
    '',
    'status:error',
    'has:error',
    'state:running',
    `name:${NAME}`,
    'name:workflow-1*',
    'name:nobody',
  ],
  ...[
    'model:gpt-4o',
    'model:gpt-4o*',
    'model:none',
    'provider:google',
    'kind:tool',
    'kind:guardrail',
  ],
  ...[`tool:${TOOL}`, 'tool:none', `user:${USER}`, 'user:none', `session:${SESSION}`, 'tag:tag-7'],
  ...[
    'environment:dev',
    'release:2026.3',
    'custom.tenant:tenant-3',
    'custom.tenant:none',
    'has:session',
  ],
  ...[
    'latency:>60s',
    'latency:<1ms',
    'cost:>=0.05',
    'cost:>100',
    'tokens:>20000',
    'tokens:>1000000',
  ],
  ...['-name:workflow-1', '-has:user', 'workflow-3', 'nowhere-at-all', '"did not answer"'],
  ...[
    `user:${USER} model:gpt-4o`,
    `user:${USER},${OTHER_USER} has:error`,
    'model:gpt-4o model:none',
  ],
  ...[`name:${NAME} has:error`, 'model:gemini-2.5-pro tool:tool-11 environment:dev latency:>5s'],
  ...['environment:dev custom.tenant:tenant-3 tag:tag-7', 'kind:guardrail model:gpt-4o -has:error'],
];

const listed = FILTERS.map((q): ReadingCase => {
  const query = new URLSearchParams({ q, limit: '50' });
  const name = q === '' ? 'list' : `list \`${q}\``;
  return { name, path: `/traces?${query}`, pages: 2, ...LIST_TARGET };
});

const SORTS = ['latency', 'cost', 'tokens'];

function sorted(sort: string, from: string): ReadingCase[] {
  const all = new URLSearchParams({ sort, limit: '50', from });
  const some = new URLSearchParams({ sort, limit: '50', from, q: 'environment:dev' });
  const name = `list by ${sort}, 30 days`;
  return [
    { name, path: `/traces?${all}`, pages: 2, ...LIST_TARGET },
    { name: `${name}, one environment`, path: `/traces?${some}`, pages: 2, ...LIST_TARGET },
  ];
}

const facets = ['model', 'name', 'user', 'session', 'tool', 'tag', 'environment'].map(
  (field): ReadingCase => ({
    ...{ name: `facets of ${field}`, path: `/facets?field=${field}`, target: SUMS_MS },
  }),
);

/** All cases but those that need something else than requests. The data are of the 30 days before `now`. */
export function readingCases({
  largeTraceId,
  now,
}: Readonly<{ largeTraceId: string; now: number }>): readonly ReadingCase[] {
  const from = iso(now - DAYS * DAY_MS);
  const stats = (name: string, more: Readonly<Record<string, string>>): ReadingCase => {
    const query = new URLSearchParams({ from, to: iso(now), ...more });
    return { name: `stats ${name}`, path: `/stats?${query}`, target: SUMS_MS };
  };
  return [
    ...listed,
    ...SORTS.flatMap((sort) => sorted(sort, from)),
    ...facets,
    stats('of 30 days by hour', { step: '1h' }),
    stats('of 30 days by hour and model', { step: '1h', group_by: 'model' }),
    stats('of 30 days by day and user', { step: '1d', group_by: 'user' }),
    stats('of 30 days by hour, one model', { step: '1h', q: 'model:gpt-4o' }),
    { name: 'sessions', path: '/sessions?limit=50', pages: 2, target: SUMS_MS },
    { name: 'a session', path: `/sessions/${SESSION}`, target: SUMS_MS },
    { name: 'users', path: '/users?limit=50', pages: 2, target: SUMS_MS },
    { name: 'tree of 10,000', path: `/traces/${largeTraceId}?fields=tree`, target: TREE_MS },
    { name: 'a page of a trace of 10,000', path: `/traces/${largeTraceId}?limit=100`, pages: 2 },
  ];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
