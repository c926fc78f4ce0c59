import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { at, get } from '../../api/client.ts';
import type { Observation, RawEvent } from '../../api/types.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { Failure } from '../../parts/failure.tsx';
import { Json } from '../../parts/json.tsx';
import { Loading } from '../../parts/loading.tsx';
import { Time } from '../../parts/time.tsx';
import { useResource } from '../../state/resource.ts';

type Props = { readonly projectId: string; readonly data: Observation };

/** The events that an observation has its fields from, as they were accepted. */
export function RawEvents({ projectId, data }: Props): JSX.Element {
  const ids = data.raw_event_ids;
  const [chosen, setChosen] = useState(0);
  const id = ids[Math.min(chosen, ids.length - 1)];
  if (id === undefined) {
    return <p class="muted panel-none">The raw events have expired.</p>;
  }
  return (
    <div class="raw">
      {ids.length > 1 && (
        <fieldset class="raw-choice" aria-label="Raw events">
          {ids.map((each, index) => (
            <button
              key={each}
              type="button"
              aria-pressed={each === id}
              onClick={() => setChosen(index)}
            >
              Event {index + 1}
            </button>
          ))}
        </fieldset>
      )}
      <RawEventView key={id} projectId={projectId} id={id} />
    </div>
  );
}

type ViewProps = { readonly projectId: string; readonly id: string };

function RawEventView({ projectId, id }: ViewProps): JSX.Element {
  const path = at`/projects/${projectId}/raw-events/${id}`;
  const { data, failure, reload } = useResource<RawEvent>(path, (signal) =>
    get(path, { signal, isExact: true }),
  );
  if (failure?.status === 404) {
    return <p class="muted panel-none">The raw event has expired or was erased.</p>;
  }
  if (failure !== undefined) return <Failure failure={failure} retry={reload} />;
  if (data === undefined) return <Loading />;
  return (
    <>
      <p class="muted raw-facts">
        <span>
          Accepted <Time at={data.accepted_at} />
        </span>
        <span>by {data.source}</span>
        <span>
          with key <code class="user-text">{data.key_id}</code>
        </span>
        <span class="raw-id">
          <code class="cut">{id}</code>{' '}
          <CopyButton text={id} label="Copy raw event id" isIconOnly />
        </span>
      </p>
      <Json value={data.event} label="Raw event" />
    </>
  );
}
