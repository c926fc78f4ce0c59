import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { at, get, send } from '../../api/client.ts';
import type { Erasure, Trace } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Failure } from '../../parts/failure.tsx';
import { bytes, count } from '../../parts/format.ts';
import { Json } from '../../parts/json.tsx';
import { Loading } from '../../parts/loading.tsx';
import { visible } from '../../parts/text-pieces.ts';
import { dropKept } from '../../state/kept.ts';
import { useResource } from '../../state/resource.ts';
import { hrefOf, navigate } from '../../state/router.ts';

type Props = { readonly projectId: string; readonly trace: Trace; readonly onClose: () => void };

/** Asks, then follows the erasure until its receipt is there. */
export function DeleteTrace({ projectId, trace, onClose }: Props): JSX.Element {
  const [begun, setBegun] = useState<Erasure | undefined>(undefined);
  const isBegun = useRef(false);
  if (begun !== undefined)
    return <Progress projectId={projectId} begun={begun} onClose={onClose} />;
  const run = async (): Promise<void> => {
    const path = at`/projects/${projectId}/traces/${trace.id}`;
    setBegun(await send<Erasure>('DELETE', path));
    // The lists behind this page have the trace.
    dropKept();
    isBegun.current = true;
  };
  return (
    // When the request is answered, the dialog of the progress takes the place of this one.
    <Confirm
      title="Delete this trace?"
      verb="Delete trace"
      isDangerous
      run={run}
      onClose={() => !isBegun.current && onClose()}
    >
      <p>
        The trace <code class="user-text">{visible(trace.id.slice(0, 200))}</code> with its{' '}
        {count(trace.observation_count)} observations and their payloads is erased: from the store,
        from queues, and from the raw batches. It cannot be undone.
      </p>
      <p class="muted">
        Usage stays counted. Events of this trace that arrive later are stored again.
      </p>
    </Confirm>
  );
}

/** Milliseconds between two answers about an erasure that runs. */
const PROGRESS_MS = 700;

type ProgressProps = {
  readonly projectId: string;
  readonly begun: Erasure;
  readonly onClose: () => void;
};

function Progress({ projectId, begun, onClose }: ProgressProps): JSX.Element {
  const [isOver, setOver] = useState(false);
  const path = at`/projects/${projectId}/erasures/${begun.id}`;
  const { data, failure, again, reload } = useResource<Erasure>(
    path,
    async (signal) => {
      const erasure = await get<Erasure>(path, { signal });
      setOver(erasure.state !== 'running');
      return erasure;
    },
    { every: isOver ? undefined : PROGRESS_MS },
  );
  const { state, observations, bytes: size, failure: reason, receipt, id } = data ?? begun;
  const isDone = state === 'done';
  const close = (): void => {
    onClose();
    if (isDone) navigate(hrefOf('/traces'));
  };
  return (
    <Dialog
      title={isDone ? 'The trace is erased' : 'Erasing the trace'}
      onClose={close}
      onLeave={onClose}
    >
      {state === 'running' && <Loading label="Erasing. It goes on when this page is closed." />}
      {state === 'failed' && (
        <p role="alert" class="bad">
          The erasure failed: {reason}
        </p>
      )}
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      <p>
        {count(observations)} observations, {bytes(size)} removed. Erasure{' '}
        <code class="user-text">{id}</code>.
      </p>
      {receipt !== null && <Json value={receipt} label="Receipt" />}
      <div class="dialog-foot">
        <button type="button" class="primary" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
