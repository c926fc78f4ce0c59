import type { JSX } from 'preact';
import type { QueryValues } from '../../api/address.ts';
import { readStats } from '../../api/reading.ts';
import type { Stats } from '../../api/types.ts';
import { Chart } from '../../parts/chart.tsx';
import { Failure } from '../../parts/failure.tsx';
import { cost, count, duration } from '../../parts/format.ts';
import { Link } from '../../parts/link.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import type { Group } from '../../parts/series.ts';
import { idOf, seriesOf } from '../../parts/series.ts';
import { Tabs } from '../../parts/tabs.tsx';
import { nameText } from '../../parts/text-pieces.ts';
import { projects } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { query as parameters, setQuery } from '../../state/router.ts';
import { toggleValue } from '../../state/terms.ts';
import { costOf, nameOf, samplesOf, sumOf, worstLatency } from './figures.ts';

type Props = {
  readonly project: string;
  /** Range, step and query of the page. */
  readonly asked: QueryValues;
  readonly times: readonly number[];
  readonly query: string;
};

const FIELDS = {
  Model: 'model',
  Name: 'name',
  User: 'user',
  Tool: 'tool',
  Environment: 'environment',
  Key: 'key',
  Project: 'project',
} as const;
type Tab = keyof typeof FIELDS;
const TABS = Object.keys(FIELDS) as readonly Tab[];

/** Groups that the table has. */
const MOST = 20;

/** Cost over time by the values of a field, and a table of them. A row opens the list of its traces. */
export function Groups({ project, asked, times, query }: Props): JSX.Element {
  const tab = TABS.find((each) => FIELDS[each] === parameters.value.get('group')) ?? 'Model';
  const field = FIELDS[tab];
  const { data, failure, reload } = useResource(
    JSON.stringify([project, asked, field]),
    async (signal) => {
      const stats =
        field === 'project'
          ? await readByProject(asked, signal)
          : await readStats(project, { ...asked, group_by: field, limit: MOST }, signal);
      return { field, stats };
    },
  );
  const isCurrent = data?.field === field;
  const groups = isCurrent ? data.stats.groups : [];
  const hasCost = groups.some(({ points }) => sumOf(points, 'cost') > 0);
  const measure = hasCost ? 'cost' : 'traces';
  return (
    <section class="card groups">
      <Tabs
        label="Group by"
        names={TABS}
        chosen={tab}
        onChoose={(name) => setQuery({ group: FIELDS[name] }, { replace: true })}
      >
        {failure !== undefined && <Failure failure={failure} retry={reload} />}
        {isCurrent && groups.length === 0 && <p class="muted">No trace has this field.</p>}
        {groups.length > 0 && (
          <Chart
            label={`${hasCost ? 'Cost' : 'Traces'} by ${tab.toLowerCase()}`}
            times={times}
            format={hasCost ? cost : count}
            series={seriesOf(times, samplesOf(groups, measure), labelOf(field))}
          />
        )}
        {groups.length > 0 && (
          <RecordTable
            label={`By ${tab.toLowerCase()}`}
            rows={groups}
            keyOf={({ key }) => idOf(key)}
            columns={[
              {
                name: tab,
                isHead: true,
                cell: ({ key }) => <GroupLink field={field} value={key} query={query} />,
              },
              {
                name: 'Traces',
                isNumber: true,
                cell: ({ points }) => count(sumOf(points, 'traces')),
              },
              {
                name: 'Failed observations',
                isNumber: true,
                cell: ({ points }) => count(sumOf(points, 'errors')),
              },
              {
                name: 'Longest p95',
                isNumber: true,
                cell: ({ points }) => duration(worstLatency(points)),
              },
              {
                name: 'Input tokens',
                isNumber: true,
                cell: ({ points }) => count(sumOf(points, 'input_tokens')),
              },
              {
                name: 'Output tokens',
                isNumber: true,
                cell: ({ points }) => count(sumOf(points, 'output_tokens')),
              },
              { name: 'Cost', isNumber: true, cell: ({ points }) => cost(costOf(points)) },
            ]}
          />
        )}
        {isCurrent && data.stats.left_out > 0 && (
          <p class="muted">{count(data.stats.left_out)} further values are not in the table.</p>
        )}
      </Tabs>
    </section>
  );
}

/** The numbers of each project, one request each; the names of projects take the place of values. */
async function readByProject(
  asked: QueryValues,
  signal: AbortSignal,
): Promise<Pick<Stats, 'groups' | 'left_out'>> {
  const all = projects.value ?? [];
  const shown = all.slice(0, MOST);
  const stats = await Promise.all(shown.map(({ id }) => readStats(id, asked, signal)));
  const groups = stats.map((each, index) => ({
    key: shown[index]?.id ?? null,
    points: each.groups[0]?.points ?? [],
  }));
  return { groups, left_out: all.length - shown.length };
}

type GroupLinkProps = {
  readonly field: string;
  readonly value: string | null;
  readonly query: string;
};

function GroupLink({ field, value, query }: GroupLinkProps): JSX.Element {
  if (value === null) return <span class="muted">{nameOf(value)}</span>;
  const { range, from, to } = Object.fromEntries(parameters.value);
  if (field === 'project') {
    return (
      <Link to="/dashboard" query={{ project: value, q: query, range, from, to }} class="cut">
        {nameOfProject(value)}
      </Link>
    );
  }
  const q = toggleValue(query, field, value);
  return (
    <Link to="/traces" query={{ q, range, from, to }} class="cut">
      {nameText(value)}
    </Link>
  );
}

function nameOfProject(id: string): string {
  return projects.value?.find((each) => each.id === id)?.name.slice(0, 300) ?? id;
}

/** Series of projects have their names; those of other fields have the value. */
function labelOf(field: string): (group: Group) => string {
  return (group) => (field === 'project' && group !== null ? nameOfProject(group) : nameOf(group));
}
