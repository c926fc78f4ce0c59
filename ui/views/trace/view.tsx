import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import type { ApiFailure } from '../../api/client.ts';
import { at, get } from '../../api/client.ts';
import type { Trace, TraceTree } from '../../api/types.ts';
import type { ViewProps } from '../../app/routes.ts';
import { Failure } from '../../parts/failure.tsx';
import { Link } from '../../parts/link.tsx';
import { Loading } from '../../parts/loading.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { keep, keptValue } from '../../state/kept.ts';
import { project } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { entry, query, setQuery } from '../../state/router.ts';
import { useScroll } from '../../state/scroll.ts';
import { useTitle } from '../../state/title.ts';
import { DeleteTrace } from './delete-trace.tsx';
import { TraceHead } from './head.tsx';
import { Panel } from './panel.tsx';
import { ScoresDialog } from './scores.tsx';
import './trace.css';
import { Tree } from './tree.tsx';
import { layoutOf, observationAt } from './tree-layout.ts';
import { useIsNarrow } from './use-is-narrow.ts';

/** Milliseconds between two answers about a trace that runs. A large one is asked for less often. */
const LIVE_MS = 2_000;
const LIVE_MS_EACH = 0.5;

/** A trace: what happened when, and each observation with its payloads. */
export function View({ params }: ViewProps): JSX.Element {
  const traceId = params['id'] ?? '';
  const projectId = project.value?.id;
  const [every, setEvery] = useState<number | undefined>(undefined);
  const [deleting, setDeleting] = useState<Trace | undefined>(undefined);
  const path = projectId && at`/projects/${projectId}/traces/${traceId}`;
  const { data, failure, again, reload } = useResource<TraceTree>(
    path,
    (signal) => get(path ?? '', { query: { fields: 'tree' }, signal }),
    { every },
  );
  const isLive = data?.trace.state === 'running' && failure?.status !== 404;
  const size = data?.observations.length ?? 0;
  useEffect(() => setEvery(isLive ? LIVE_MS + size * LIVE_MS_EACH : undefined), [isLive, size]);
  useTitle(data?.trace.name || 'Trace');

  if (projectId === undefined) return <NoProject />;
  return (
    <>
      {failure?.status === 404 ? (
        <NotFound id={traceId} onRetry={reload} />
      ) : data === undefined ? (
        failure !== undefined ? (
          <>
            <PageHead title="Trace" />
            <Failure failure={failure} retry={reload} again={again} />
          </>
        ) : (
          <Loading />
        )
      ) : (
        <Loaded
          key={traceId}
          projectId={projectId}
          tree={data}
          {...{ failure, again }}
          retry={reload}
          onDelete={() => setDeleting(data.trace)}
        />
      )}
      {/* Not a part of the trace: the receipt comes after the trace is gone. */}
      {deleting !== undefined && (
        <DeleteTrace
          projectId={projectId}
          trace={deleting}
          onClose={() => setDeleting(undefined)}
        />
      )}
    </>
  );
}

/** The name of the sheet among the kept values of an entry that opening it made. */
const SHEET = 'sheet';

type LoadedProps = {
  readonly projectId: string;
  readonly tree: TraceTree;
  readonly failure: ApiFailure | undefined;
  /** Milliseconds after the failure when the page tries again on its own. */
  readonly again: number | undefined;
  readonly retry: () => void;
  readonly onDelete: () => void;
};

function Loaded(props: LoadedProps): JSX.Element {
  const { projectId, tree, failure, again, retry, onDelete } = props;
  const { trace, observations } = tree;
  const layout = useMemo(() => layoutOf(observations), [observations]);
  const isNarrow = useIsNarrow();
  const named = query.value.get('observation') ?? undefined;
  const row = named === undefined ? undefined : layout.rowOf.get(named);
  // A wide page shows the root until a person chooses.
  const shown = row ?? (isNarrow || named !== undefined ? undefined : 0);
  const choose = (id: string): void => {
    // A sheet covers the page: Back closes it.
    const isOpening = isNarrow && named === undefined;
    setQuery({ observation: id }, { replace: !isOpening });
    if (isOpening) keep(entry.value, SHEET, true);
  };
  const close = (): void => {
    if (keptValue<boolean>(entry.value, SHEET) === true) history.back();
    else setQuery({ observation: undefined }, { replace: true });
  };
  useScroll(true);
  const [hasScores, setScores] = useState(false);
  const observation = shown === undefined ? undefined : observationAt(layout, shown);

  return (
    <div class="trace">
      <TraceHead
        projectId={projectId}
        trace={trace}
        onScores={() => setScores(true)}
        onDelete={onDelete}
      />
      {failure !== undefined && <Failure failure={failure} retry={retry} again={again} />}
      {named !== undefined && row === undefined && (
        <p class="trace-note" role="status">
          The trace has no observation <code class="user-text">{named.slice(0, 120)}</code>.
        </p>
      )}
      <div class="trace-body">
        <Tree trace={trace} layout={layout} shown={shown} isNarrow={isNarrow} onChoose={choose} />
        {observation !== undefined && (
          <Panel
            key={observation.id}
            projectId={projectId}
            trace={trace}
            layout={layout}
            observation={observation}
            isSheet={isNarrow}
            onClose={close}
          />
        )}
      </div>
      {hasScores && (
        <ScoresDialog
          {...{ projectId, trace, observation }}
          onSaved={retry}
          onClose={() => setScores(false)}
        />
      )}
    </div>
  );
}

type NotFoundProps = { readonly id: string; readonly onRetry: () => void };

function NotFound({ id, onRetry }: NotFoundProps): JSX.Element {
  return (
    <div class="empty">
      <h1>The trace is not here</h1>
      <p>
        Project <strong class="user-text">{project.value?.name}</strong> has no trace{' '}
        <code class="user-text">{id.slice(0, 200)}</code>. It may be in another project, not have
        arrived yet, be older than the retention of the project, or have been erased.
      </p>
      <div class="actions">
        <button type="button" onClick={onRetry}>
          Look again
        </button>
        <Link to="/rejected">See what was rejected</Link>
        <Link to="/settings/audit">See erasures</Link>
        <Link to="/traces">Go to the traces</Link>
      </div>
    </div>
  );
}

function NoProject(): JSX.Element {
  return (
    <div class="empty">
      <h1>There is no project</h1>
      <p>
        <Link to="/settings/projects">Create a project</Link> to see traces.
      </p>
    </div>
  );
}
