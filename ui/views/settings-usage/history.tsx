import type { JSX } from 'preact';
import { at, get } from '../../api/client.ts';
import type { Keys, Project, UsageHistory } from '../../api/types.ts';
import { Chart } from '../../parts/chart.tsx';
import { Choice } from '../../parts/choice.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { bytes, count, grouped } from '../../parts/format.ts';
import { nameOfKey } from '../../parts/key-name.ts';
import { Link } from '../../parts/link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import type { Group } from '../../parts/series.ts';
import { periodsBetween, seriesOf } from '../../parts/series.ts';
import { rejectedByCode } from '../../parts/usage-history.ts';
import { project, projects } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { query, setQuery } from '../../state/router.ts';
import type { Grouping, Measure } from './sums.ts';
import { samplesOf } from './sums.ts';

const REFRESH_MS = 30_000;
const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

const PERIODS = [
  { name: 'day', label: '30 days' },
  { name: 'hour', label: '48 hours' },
] as const;
const GROUPINGS = [
  { name: 'project', label: 'By project' },
  { name: 'key', label: 'By key' },
] as const;
const MEASURES = [
  { name: 'events', label: 'Events' },
  { name: 'bytes', label: 'Bytes' },
  { name: 'rejected', label: 'Rejected' },
] as const;

/** The choices of the chart; the address of the page holds them. */
type Shown = {
  readonly by: 'day' | 'hour';
  readonly grouping: Grouping;
  readonly measure: Measure;
};

function shownOf(parameters: URLSearchParams): Shown {
  const [by, group, value] = ['by', 'group', 'value'].map((name) => parameters.get(name));
  return {
    by: by === 'hour' ? 'hour' : 'day',
    grouping: group === 'key' ? 'key' : 'project',
    measure: MEASURES.find(({ name }) => name === value)?.name ?? 'events',
  };
}

/** The history of usage as a chart, of all projects or of the keys of one. */
export function History(): JSX.Element {
  const shown = shownOf(query.value);
  const { by, grouping, measure } = shown;
  const of = project.value;
  const scope = grouping === 'key' ? of?.id : undefined;
  const { data, failure, again, isStale, reload } = useResource(
    `${by} ${scope}`,
    async (signal): Promise<Counted> => ({
      ...(await get<UsageHistory>('/usage', { query: { by, project: scope }, signal })),
      grouping,
    }),
    { every: REFRESH_MS },
  );
  const set = (name: string, value: string): void => setQuery({ [name]: value }, { replace: true });
  return (
    <section class="card usage-history" aria-labelledby="usage-history">
      <div class="usage-head">
        <h2 id="usage-history">
          History {grouping === 'key' && <span class="user-text muted">of {of?.name}</span>}
        </h2>
        <div class="actions">
          <Choice
            label="Value"
            options={MEASURES}
            chosen={measure}
            onChoose={(name) => set('value', name)}
          />
          <Choice
            label="Grouping"
            options={GROUPINGS}
            chosen={grouping}
            onChoose={(name) => set('group', name)}
          />
          <Choice
            label="Period"
            options={PERIODS}
            chosen={by}
            onChoose={(name) => set('by', name)}
          />
        </div>
      </div>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && (
        <div class={isStale ? 'is-stale' : ''} aria-busy={isStale}>
          <Shown data={data} measure={measure} of={of} />
        </div>
      )}
    </section>
  );
}

/** The counts show in the grouping that they were asked for: those of every project have keys of other projects, too. */
type Counted = UsageHistory & { readonly grouping: Grouping };

type ShownProps = {
  readonly data: Counted;
  readonly measure: Measure;
  readonly of: Project | undefined;
};

function Shown({ data, measure, of }: ShownProps): JSX.Element {
  const { by, grouping } = data;
  const keys = useResource(grouping === 'key' ? of?.id : undefined, (signal) =>
    get<Keys>(at`/projects/${of?.id ?? ''}/keys`, { signal }),
  ).data?.keys;
  const step = by === 'day' ? DAY_MS : HOUR_MS;
  const times = periodsBetween(Date.parse(data.from), Date.parse(data.to), step);
  const labelOf = (group: Group): string =>
    grouping === 'key' ? nameOfKey(group ?? '', keys) : projectLabel(group ?? '');
  const series = seriesOf(times, samplesOf(data.usage, measure, grouping), labelOf);
  const rejected = rejectedByCode(data.usage);
  const label = MEASURES.find(({ name }) => name === measure)?.label ?? '';
  return (
    <>
      {series.length === 0 ? (
        <Empty title={measure === 'rejected' ? 'Nothing was rejected' : 'Nothing was counted'}>
          <p>
            The last {by === 'day' ? '30 days' : '48 hours'} have no such value.{' '}
            <Link to="/start">Send a trace</Link>
          </p>
        </Empty>
      ) : (
        <Chart
          label={`${label} by ${by} and ${grouping}`}
          times={times}
          series={series}
          format={measure === 'bytes' ? bytes : count}
        />
      )}
      {rejected.length > 0 && (
        <>
          <h3>
            Rejected items and refused requests · <Link to="/rejected">Reasons</Link>
          </h3>
          <RecordTable
            label="Rejected by code"
            rows={rejected}
            keyOf={({ code }) => code}
            columns={[
              { name: 'Code', isHead: true, cell: ({ code }) => <code>{code}</code> },
              { name: 'Count', isNumber: true, cell: (each) => grouped(each.count) },
            ]}
          />
        </>
      )}
    </>
  );
}

function projectLabel(id: string): string {
  return projects.value?.find((each) => each.id === id)?.name ?? `deleted ${id}`;
}
