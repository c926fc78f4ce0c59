import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import errorsPage from '../../../docs/errors.md?raw';
import { at, get } from '../../api/client.ts';
import type { Keys, Project, UsageHistory } from '../../api/types.ts';
import { Chart } from '../../parts/chart.tsx';
import { Choice } from '../../parts/choice.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { count, grouped } from '../../parts/format.ts';
import { Link } from '../../parts/link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { periodsBetween, seriesOf } from '../../parts/series.ts';
import { rejectedByCode } from '../../parts/usage-history.ts';
import { project } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { query, setQuery } from '../../state/router.ts';
import { samplesByCode } from './codes.ts';
import { adviceOf, entriesOf } from './errors-page.ts';
import { Recent } from './recent.tsx';
import './rejected.css';

const ENTRIES = entriesOf(errorsPage);
const REFRESH_MS = 10_000;
const STEPS = { hour: 3_600_000, day: 86_400_000 } as const;
const PERIODS = [
  { name: 'hour', label: '48 hours' },
  { name: 'day', label: '30 days' },
] as const;

/** The rejected items and refused requests of a project, and how to correct them. */
export function View(): JSX.Element {
  const of = project.value;
  return of === undefined ? (
    <Empty title="There is no project" />
  ) : (
    <Rejected key={of.id} of={of} />
  );
}

function Rejected({ of }: { readonly of: Project }): JSX.Element {
  const by = query.value.get('by') === 'day' ? 'day' : 'hour';
  const { data, failure, again, reload } = useResource(
    `${of.id} ${by}`,
    (signal) => get<UsageHistory>('/usage', { query: { by, project: of.id }, signal }),
    { every: REFRESH_MS },
  );
  const keys = useResource(of.id, (signal) => get<Keys>(at`/projects/${of.id}/keys`, { signal }));
  const codes = data === undefined ? [] : rejectedByCode(data.usage);
  const note = (
    <>
      Items and requests for <strong class="user-text">{of.name}</strong> that were not accepted.
      They are not stored and do not count toward the plan.
    </>
  );
  return (
    <>
      <PageHead title="Rejected" note={note}>
        <Choice
          label="Period"
          options={PERIODS}
          chosen={by}
          onChoose={(name) => setQuery({ by: name }, { replace: true })}
        />
      </PageHead>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data === undefined && failure === undefined && <Loading />}
      {data?.by === by && codes.length === 0 && <NothingRejected by={by} />}
      {data?.by === by && codes.length > 0 && (
        <div class="rejected">
          <Overview data={data} />
          <Codes codes={codes} />
        </div>
      )}
      <Recent of={of} keys={keys.data?.keys ?? []} />
    </>
  );
}

function NothingRejected({ by }: { readonly by: 'hour' | 'day' }): JSX.Element {
  return (
    <Empty title="Nothing was rejected">
      <p>
        Everything that arrived with a key of this project in the last{' '}
        {by === 'day' ? '30 days' : '48 hours'} was accepted. A request without a valid key belongs
        to no project: its sender gets 401. <Link to="/start">Check with a first trace</Link>
      </p>
    </Empty>
  );
}

function Overview({ data }: { readonly data: UsageHistory }): JSX.Element {
  const times = periodsBetween(Date.parse(data.from), Date.parse(data.to), STEPS[data.by]);
  const series = seriesOf(times, samplesByCode(data.usage));
  return (
    <section class="card">
      <Chart label="Rejected over time by code" times={times} series={series} format={count} />
    </section>
  );
}

type CodesProps = { readonly codes: readonly { readonly code: string; readonly count: number }[] };

function Codes({ codes }: CodesProps): JSX.Element {
  const [shown, setShown] = useState<string | undefined>(undefined);
  const chosen = query.value.get('code');
  const choose = (code: string): void =>
    setQuery({ code: chosen === code ? undefined : code }, { replace: true });
  return (
    <section aria-labelledby="rejected-codes">
      <h2 id="rejected-codes">How to correct it</h2>
      <RecordTable
        label="Codes"
        rows={codes}
        keyOf={({ code }) => code}
        classOf={({ code }) => (code === chosen ? 'is-chosen' : '')}
        columns={[
          { name: 'Code', isHead: true, cell: ({ code }) => <code class="user-text">{code}</code> },
          { name: 'Count', isNumber: true, cell: (each) => grouped(each.count) },
          { name: 'How to correct it', cell: ({ code }) => adviceOf(code, ENTRIES) },
          {
            name: 'Actions',
            isActions: true,
            cell: ({ code }) => (
              <>
                <button type="button" aria-pressed={code === chosen} onClick={() => choose(code)}>
                  Only these
                </button>
                <button type="button" onClick={() => setShown(code)}>
                  Explain
                </button>
              </>
            ),
          },
        ]}
      />
      {shown !== undefined && <Explain code={shown} onClose={() => setShown(undefined)} />}
    </section>
  );
}

type ExplainProps = { readonly code: string; readonly onClose: () => void };

/** The text of docs/errors.md about a code, and the codes around it. */
function Explain({ code, onClose }: ExplainProps): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const entry = ENTRIES.find((each) => each.code === code);
  return (
    <Dialog title={isWhole ? 'docs/errors.md' : code} onClose={onClose}>
      {isWhole ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the text scrolls by keyboard.
        <pre class="rejected-page" tabIndex={0}>
          {errorsPage}
        </pre>
      ) : (
        <>
          <p>
            <strong>Meaning:</strong> {entry?.meaning ?? 'the page has no entry for this code.'}
          </p>
          <p>
            <strong>How to correct it:</strong> {adviceOf(code, ENTRIES)}
          </p>
        </>
      )}
      <div class="dialog-foot">
        <button type="button" onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Only this code' : 'All codes (docs/errors.md)'}
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
