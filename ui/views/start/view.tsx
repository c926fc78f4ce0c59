import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { at, get, send } from '../../api/client.ts';
import type { CreatedKey, Project, Rejections, Trace } from '../../api/types.ts';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Link } from '../../parts/link.tsx';
import { NewKey } from '../../parts/new-key.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Snippets } from '../../parts/snippets.tsx';
import { nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { loadProjects, project } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { hrefOf, navigate } from '../../state/router.ts';
import { failed } from '../../state/toasts.ts';
import './start.css';
import { useArrivals } from './use-arrivals.ts';

/** Milliseconds that the arrival of the first trace shows before the trace opens. */
const OPEN_MS = 1_200;
const REJECTIONS_MS = 3_000;

/** The first run: a request to paste, and a sign that it arrived. */
export function View(): JSX.Element {
  const of = project.value;
  return of === undefined ? <Empty title="There is no project" /> : <Start key={of.id} of={of} />;
}

function Start({ of }: { readonly of: Project }): JSX.Element {
  // The value of the moment when the page opened: the first trace changes it.
  const [wasEmpty] = useState(of.retained_traces === 0);
  const { traces, isListening } = useArrivals(of.id, wasEmpty);
  const [created, setCreated] = useState<CreatedKey | undefined>(undefined);
  const hasTrace = traces.length > 0;
  // A key of the page that did not send it may not be saved yet, and no other page shows it.
  const first = traces.findLast(({ key_id }) => created === undefined || key_id === created.id);
  const isOpening = wasEmpty && first !== undefined;
  useEffect(() => {
    if (first === undefined || !isOpening) return undefined;
    const open = (): void => navigate(hrefOf(traceHref(first)), { isAsked: false });
    const timer = setTimeout(open, OPEN_MS);
    return () => clearTimeout(timer);
    // Not at each trace: a client that sends all the time would put off the opening.
  }, [isOpening]);
  useEffect(() => {
    // The page that opens at `/` depends on the number of traces.
    if (hasTrace && wasEmpty) loadProjects().catch(failed);
  }, [hasTrace, wasEmpty]);
  const note = (
    <>
      Send a trace to <strong class="user-text">{of.name}</strong>. This page sees it arrive.
    </>
  );
  return (
    <div class="start">
      <PageHead title="Is it working?" note={note} />
      <Sending of={of} token={created?.token} onCreated={setCreated} />
      <section class="card" aria-labelledby="start-see">
        <h2 id="start-see">3. See it here</h2>
        <Waiting isFirst={wasEmpty} {...{ isListening, isOpening, traces }} />
        <Refused projectId={of.id} />
      </section>
    </div>
  );
}

type SendingProps = {
  readonly of: Project;
  /** That of the key that the page created. */
  readonly token: string | undefined;
  readonly onCreated: (key: CreatedKey) => void;
};

function Sending({ of, token, onCreated }: SendingProps): JSX.Element {
  const [isBusy, setBusy] = useState(false);
  const create = async (): Promise<void> => {
    setBusy(true);
    try {
      const body = { name: 'Get started' };
      onCreated(await send<CreatedKey>('POST', at`/projects/${of.id}/keys`, { body }));
    } catch (error) {
      failed(error);
    }
    setBusy(false);
  };
  return (
    <>
      <section class="card" aria-labelledby="start-key">
        <h2 id="start-key">1. Take a key</h2>
        {token === undefined ? (
          <div class="start-key">
            <p>
              Each request carries a key of the project. Create one here, or use one that you have:{' '}
              <Link to="/settings/keys">API keys</Link>.
            </p>
            <button type="button" class="primary" disabled={isBusy} onClick={() => void create()}>
              <Icon name="plus" /> Create key
            </button>
          </div>
        ) : (
          <NewKey token={token} />
        )}
      </section>
      <section class="card" aria-labelledby="start-send">
        <h2 id="start-send">2. Send a trace</h2>
        <Snippets token={token} />
      </section>
    </>
  );
}

type WaitingProps = {
  readonly isFirst: boolean;
  readonly isListening: boolean;
  readonly isOpening: boolean;
  readonly traces: readonly Trace[];
};

function Waiting({ isFirst, isListening, isOpening, traces }: WaitingProps): JSX.Element {
  if (traces.length === 0) {
    const text = isFirst ? 'Waiting for the first trace' : 'Waiting for the next trace';
    return (
      <p class="start-wait" role="status">
        <span class="spinner" aria-hidden="true" />
        {isListening ? `${text} …` : 'Connecting to the stream of traces …'}
      </p>
    );
  }
  return (
    <div role="status">
      <p class="good start-wait">
        <Icon name="check" />
        {isOpening ? 'It works. The first trace opens now.' : 'It works.'}
      </p>
      <ul class="start-traces">
        {traces.map((trace) => (
          <li key={trace.id}>
            <Link to={traceHref(trace)}>
              <span class="cut">{nameText(trace.name ?? trace.id)}</span>
            </Link>{' '}
            <span class="muted">
              <Time at={trace.start_time} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** A refused request shows no trace: this says why. */
function Refused({ projectId }: { readonly projectId: string }): JSX.Element | null {
  const { data, failure, again, reload } = useResource(
    projectId,
    (signal) =>
      get<Rejections>(at`/projects/${projectId}/rejections`, { query: { limit: 3 }, signal }),
    { every: REJECTIONS_MS },
  );
  // The clock of the daemon may be another one: later than the newest one of the first answer.
  const since = useRef<string | undefined>(undefined);
  if (data !== undefined) since.current ??= data.rejections[0]?.at ?? '';
  const recent = data?.rejections.filter(({ at: time }) => time > (since.current ?? '')) ?? [];
  if (recent.length === 0) {
    return failure === undefined ? null : (
      <Failure failure={failure} retry={reload} again={again} />
    );
  }
  // A person may read these reasons: they stay while a later reading fails.
  return (
    <div class="start-refused" role="alert">
      <p class="bad">
        <Icon name="warning" /> A request arrived, but items were refused:
      </p>
      <ul>
        {recent.map((each) => (
          <li key={`${each.at} ${each.code} ${each.item_id}`}>
            <code>{each.code}</code> <span class="user-text">{each.reason}</span>
          </li>
        ))}
      </ul>
      <Link to="/rejected">How to correct it</Link>
    </div>
  );
}

function traceHref({ id }: Trace): string {
  return at`/traces/${id}`;
}
