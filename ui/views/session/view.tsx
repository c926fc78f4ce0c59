import './view.css';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { at } from '../../api/client.ts';
import { readSession } from '../../api/reading.ts';
import type { Session, SessionTrace } from '../../api/types.ts';
import type { ViewProps } from '../../app/routes.ts';
import { conversationOf } from '../../parts/conversation.ts';
import { ErrorLine } from '../../parts/error-line.tsx';
import { Failure } from '../../parts/failure.tsx';
import { cost, count, duration } from '../../parts/format.ts';
import { Link } from '../../parts/link.tsx';
import { ListEnd } from '../../parts/list-end.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Messages, Value } from '../../parts/messages.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Status } from '../../parts/status.tsx';
import { Sums } from '../../parts/sums.tsx';
import { nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { tokensIn } from '../../parts/usage.ts';
import { usePages } from '../../state/pages.ts';
import { project } from '../../state/projects.ts';
import { printTerm } from '../../state/terms.ts';
import { newMessages } from './turn.ts';

const PAGE = 20;

/** `/sessions/:id`: a conversation as a thread of its traces, oldest first. */
export function View({ params }: ViewProps): JSX.Element {
  const { id = '' } = params;
  const place = project.value?.id ?? '';
  const list = usePages(`${place} ${id}`, (cursor, signal) =>
    readSession(place, id, { limit: PAGE, cursor }, signal),
  );
  const session = list.pages?.[0]?.session;
  const traces = list.pages?.flatMap((page) => page.traces) ?? [];
  return (
    <>
      <PageHead title={nameText(id)} note="Session">
        <Link to="/traces" query={{ q: printTerm('session', id), range: 'all' }}>
          Traces of this session
        </Link>
        <Link to="/dashboard" query={{ q: printTerm('session', id), range: '30d' }}>
          Dashboard
        </Link>
      </PageHead>
      {list.failure !== undefined && <Failure failure={list.failure} retry={list.retry} />}
      {session === undefined && list.failure === undefined && <Loading />}
      {session !== undefined && <Head session={session} />}
      <ol class="thread">
        {traces.map((trace) => (
          <Turn key={trace.id} trace={trace} />
        ))}
      </ol>
      {session !== undefined && <ListEnd list={list} end="End of the session" />}
    </>
  );
}

function Head({ session }: { readonly session: Session }): JSX.Element {
  const { user_id, traces, errors, usage, cost: amount, first_time, last_time } = session;
  return (
    <Sums
      sums={[
        {
          name: 'User',
          value:
            user_id === null ? (
              '–'
            ) : (
              <Link to={at`/users/${user_id}`} class="cut">
                {nameText(user_id, 100)}
              </Link>
            ),
        },
        { name: 'Traces', value: count(traces) },
        { name: 'Failed observations', value: count(errors) },
        { name: 'Tokens', value: count(tokensIn(usage)) },
        { name: 'Cost', value: cost(amount?.total) },
        { name: 'First', value: <Time at={first_time} /> },
        { name: 'Last', value: <Time at={last_time} /> },
      ]}
    />
  );
}

function Turn({ trace }: { readonly trace: SessionTrace }): JSX.Element {
  const { id, name, status, state, start_time, latency_ms, usage } = trace;
  const { input, output, error, error_count } = trace;
  const messages = useMemo(() => conversationOf(input, output), [input, output]);
  return (
    <li class="turn">
      <div class="turn-head">
        <Status status={status} state={state} isIconOnly />
        <h2>
          <Link to={at`/traces/${id}`} class="cut">
            {nameText(name)}
          </Link>
        </h2>
        <span class="muted">
          <Time at={start_time} /> · {duration(latency_ms)} · {count(tokensIn(usage))} tokens ·{' '}
          {cost(trace.cost?.total)}
        </span>
        {error_count > 0 && (
          <span class="bad">
            {count(error_count)} failed {error_count === 1 ? 'observation' : 'observations'}
          </span>
        )}
      </div>
      {messages === undefined ? (
        <div class="turn-values">
          <h3>Input</h3>
          <Value value={input} label="Input" />
          <h3>Output</h3>
          <Value value={output} label="Output" />
        </div>
      ) : (
        <Messages messages={newMessages(messages)} />
      )}
      <ErrorLine error={error} />
    </li>
  );
}
