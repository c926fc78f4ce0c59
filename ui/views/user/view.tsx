import type { JSX } from 'preact';
import { at } from '../../api/client.ts';
import { readSessions, readTraces, readUser } from '../../api/reading.ts';
import type { ViewProps } from '../../app/routes.ts';
import { Failure } from '../../parts/failure.tsx';
import { cost, count, duration } from '../../parts/format.ts';
import { Link } from '../../parts/link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { firstWords } from '../../parts/preview.ts';
import { RecordTable } from '../../parts/record-table.tsx';
import { Status } from '../../parts/status.tsx';
import { Sums } from '../../parts/sums.tsx';
import { isolated, nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { tokensIn } from '../../parts/usage.ts';
import { project } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { printTerm } from '../../state/terms.ts';

/** Rows of each table; the lists behind the links have the others. */
const FEW = 10;

/** `/users/:id`: sums of a user, and the newest sessions and traces. */
export function View({ params }: ViewProps): JSX.Element {
  const { id = '' } = params;
  const place = project.value?.id ?? '';
  const q = printTerm('user', id);
  const { data, failure, reload } = useResource(`${place} ${id}`, async (signal) => {
    const [{ user }, { sessions }, { traces }] = await Promise.all([
      readUser(place, id, signal),
      readSessions(place, { q, limit: FEW }, signal),
      readTraces(place, { q, limit: FEW }, signal),
    ]);
    return { user, sessions, traces };
  });
  return (
    <>
      <PageHead title={nameText(id)} note="User">
        <Link to="/traces" query={{ q, range: 'all' }}>
          All traces of this user
        </Link>
        <Link to="/sessions" query={{ q, range: 'all' }}>
          All sessions
        </Link>
        <Link to="/dashboard" query={{ q, range: '30d' }}>
          Dashboard
        </Link>
      </PageHead>
      {failure !== undefined && <Failure failure={failure} retry={reload} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && (
        <>
          <Sums
            sums={[
              { name: 'Traces', value: count(data.user.traces) },
              { name: 'Sessions', value: count(data.user.sessions) },
              { name: 'Failed observations', value: count(data.user.errors) },
              { name: 'Tokens', value: count(tokensIn(data.user.usage)) },
              { name: 'Cost', value: cost(data.user.cost?.total) },
              { name: 'First seen', value: <Time at={data.user.first_time} /> },
              { name: 'Last seen', value: <Time at={data.user.last_time} /> },
            ]}
          />
          {data.sessions.length > 0 && (
            <>
              <h2>Newest sessions</h2>
              <RecordTable
                label="Newest sessions"
                rows={data.sessions}
                keyOf={(row) => row.id}
                columns={[
                  {
                    name: 'Session',
                    isHead: true,
                    cell: (row) => (
                      <Link
                        to={at`/sessions/${row.id}`}
                        class="cut"
                        title={isolated(nameText(row.id))}
                      >
                        {nameText(row.id)}
                      </Link>
                    ),
                  },
                  { name: 'Last', cell: (row) => <Time at={row.last_time} /> },
                  { name: 'Traces', isNumber: true, cell: (row) => count(row.traces) },
                  { name: 'Cost', isNumber: true, cell: (row) => cost(row.cost?.total) },
                ]}
              />
            </>
          )}
          <h2>Newest traces</h2>
          <RecordTable
            label="Newest traces"
            rows={data.traces}
            keyOf={(row) => row.id}
            columns={[
              {
                name: 'Trace',
                isHead: true,
                cell: (row) => (
                  <Link to={at`/traces/${row.id}`} class="cut" title={isolated(nameText(row.name))}>
                    {nameText(row.name)}
                  </Link>
                ),
              },
              {
                name: 'Status',
                cell: (row) => <Status status={row.status} state={row.state} />,
              },
              { name: 'Time', cell: (row) => <Time at={row.start_time} /> },
              {
                name: 'Input',
                cell: (row) => <CutText text={firstWords(row.input_preview).slice(0, 300)} />,
              },
              { name: 'Latency', isNumber: true, cell: (row) => duration(row.latency_ms) },
              { name: 'Cost', isNumber: true, cell: (row) => cost(row.cost?.total) },
            ]}
          />
        </>
      )}
    </>
  );
}

function CutText({ text }: { readonly text: string }): JSX.Element {
  return (
    <span class="cut" title={isolated(text)}>
      {text}
    </span>
  );
}
