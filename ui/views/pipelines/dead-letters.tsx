import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, send } from '../../api/client.ts';
import type { DeadLetter, DeadLetters } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Failure } from '../../parts/failure.tsx';
import { bytes, grouped } from '../../parts/format.ts';
import { RecordTable } from '../../parts/record-table.tsx';
import { Time } from '../../parts/time.tsx';
import { projects } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { done, failed } from '../../state/toasts.ts';

const REFRESH_MS = 5_000;
const MOST = 200;

type Chosen = { readonly queue: string; readonly ids: readonly number[] | 'all' };

/** The batches that could not be delivered, with replay and drop. */
export function DeadLetterList(): JSX.Element {
  const [dropping, setDropping] = useState<Chosen | undefined>(undefined);
  const { data, failure, again, reload } = useResource(
    'dead-letters',
    (signal) => get<DeadLetters>('/dead-letters', { query: { limit: MOST }, signal }),
    { every: REFRESH_MS },
  );
  const letters = data?.dead_letters ?? [];
  const queues = [...new Set(letters.map(({ queue }) => queue))].filter(
    (name) => letters.filter(({ queue }) => queue === name).length > 1,
  );
  const replay = async (body: Chosen): Promise<void> => {
    try {
      const { replayed } = await send<{ replayed: number }>('POST', '/dead-letters/replay', {
        body,
      });
      done(`${replayed} back in the queue. A batch that fails again returns here.`);
      reload();
    } catch (error) {
      failed(error);
    }
  };
  return (
    <section class="dead-letters" aria-labelledby="dead-letters">
      <div class="details-head">
        <h2 id="dead-letters">Dead letters</h2>
        <p class="muted">
          Batches that no retry can deliver. They are kept until you replay or drop them.
        </p>
        {queues.map((queue) => (
          <span key={queue} class="actions">
            <button type="button" onClick={() => void replay({ queue, ids: 'all' })}>
              Replay all of <span class="cut dead-queue">{queue}</span>
            </button>
            <button type="button" onClick={() => setDropping({ queue, ids: 'all' })}>
              Drop all of <span class="cut dead-queue">{queue}</span>
            </button>
          </span>
        ))}
      </div>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data !== undefined && letters.length === 0 && <p class="good">No dead letters.</p>}
      {letters.length > 0 && (
        <LetterTable
          letters={letters}
          onReplay={({ queue, id }) => void replay({ queue, ids: [id] })}
          onDrop={({ queue, id }) => setDropping({ queue, ids: [id] })}
        />
      )}
      {letters.length === MOST && (
        <p class="muted">The first {MOST}. More show when these are replayed or dropped.</p>
      )}
      {dropping !== undefined && (
        <DropLetters of={dropping} onDropped={reload} onClose={() => setDropping(undefined)} />
      )}
    </section>
  );
}

type TableProps = {
  readonly letters: readonly DeadLetter[];
  readonly onReplay: (letter: DeadLetter) => void;
  readonly onDrop: (letter: DeadLetter) => void;
};

function LetterTable({ letters, onReplay, onDrop }: TableProps): JSX.Element {
  return (
    <RecordTable
      label="Dead letters"
      rows={letters}
      keyOf={({ queue, id }) => `${queue} ${id}`}
      columns={[
        { name: 'Failed', cell: (each) => <Time at={each.failed_at} /> },
        {
          name: 'Reason',
          isHead: true,
          cell: ({ code, message }) => (
            <span class="dead-reason">
              <code>{code}</code> <span class="user-text">{message}</span>
            </span>
          ),
        },
        { name: 'For', cell: ({ exporter }) => <code class="user-text">{exporter}</code> },
        { name: 'Project', cell: (each) => <ProjectName id={each.project_id} /> },
        { name: 'Items', isNumber: true, cell: ({ items }) => grouped(items) },
        { name: 'Size', isNumber: true, cell: (each) => bytes(each.bytes) },
        {
          name: 'Actions',
          isActions: true,
          cell: (each) => (
            <>
              <button type="button" onClick={() => onReplay(each)}>
                Replay
              </button>
              <button type="button" onClick={() => onDrop(each)}>
                Drop
              </button>
            </>
          ),
        },
      ]}
    />
  );
}

function ProjectName({ id }: { readonly id: string }): JSX.Element {
  const name = projects.value?.find((each) => each.id === id)?.name;
  return (
    <span class="cut dead-queue" title={id}>
      {name ?? id}
    </span>
  );
}

type DropProps = {
  readonly of: Chosen;
  readonly onDropped: () => void;
  readonly onClose: () => void;
};

function DropLetters({ of, onDropped, onClose }: DropProps): JSX.Element {
  const run = async (): Promise<void> => {
    const { dropped } = await send<{ dropped: number }>('POST', '/dead-letters/drop', { body: of });
    onDropped();
    done(`${dropped} dropped.`);
  };
  const isAll = of.ids === 'all';
  const title = isAll ? 'Drop all dead letters' : 'Drop the dead letter';
  return (
    <Confirm title={title} verb="Drop" isDangerous run={run} onClose={onClose}>
      {isAll && (
        <p>
          This drops every dead letter of <strong class="user-text">{of.queue}</strong>, also those
          that the page does not show.
        </p>
      )}
      <p>
        What is dropped is deleted for good, and its items never reach their destination. Their
        usage stays counted.
      </p>
    </Confirm>
  );
}
