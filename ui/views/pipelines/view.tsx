import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { get } from '../../api/client.ts';
import type { Pipelines } from '../../api/types.ts';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { Icon } from '../../parts/icon.tsx';
import { Loading } from '../../parts/loading.tsx';
import { PageHead } from '../../parts/page-head.tsx';
import { Switch } from '../../parts/switch.tsx';
import { Time } from '../../parts/time.tsx';
import { useResource } from '../../state/resource.ts';
import { query, setQuery } from '../../state/router.ts';
import { DeadLetterList } from './dead-letters.tsx';
import { Details } from './details.tsx';
import { Graph } from './graph.tsx';
import './pipelines.css';
import { ratesOf, remembered } from './rates.ts';

const REFRESH_MS = 2_000;

/** The running configuration as a graph, its rates and queues, and the dead letters. */
export function View(): JSX.Element {
  const isLive = query.value.get('live') !== 'false';
  const { data, failure, again, reload } = useResource(
    'pipelines',
    (signal) => get<Pipelines>('/pipelines', { signal }),
    { every: isLive ? REFRESH_MS : undefined },
  );
  const [answers, setAnswers] = useState<readonly Pipelines[]>([]);
  useEffect(() => {
    if (data !== undefined) setAnswers((before) => remembered(before, data));
  }, [data]);
  const rates = ratesOf(answers);
  const chosenId = query.value.get('component') ?? undefined;
  const chosen = data?.nodes.find(({ id }) => id === chosenId);
  const choose = (id: string): void =>
    setQuery({ component: id === chosenId ? undefined : id }, { replace: true });
  return (
    <>
      <PageHead title="Pipelines" note={data && <Note data={data} />}>
        <Switch
          label="Live"
          isOn={isLive}
          onChange={(isOn) => setQuery({ live: isOn ? undefined : 'false' }, { replace: true })}
        />
      </PageHead>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && (
        <div class="pipelines">
          {/* What the daemon said before is no health of a daemon that does not answer. */}
          {failure === undefined && <Troubles data={data} />}
          {data.nodes.length === 0 ? (
            <Empty title="No pipeline runs" />
          ) : (
            <Graph data={data} rates={rates} chosen={chosenId} onChoose={choose} />
          )}
          {chosen === undefined ? (
            <p class="muted">Choose a component to see its numbers.</p>
          ) : (
            <Details node={chosen} rates={rates.get(chosen.id)} since={data.since} />
          )}
          <DeadLetterList />
        </div>
      )}
    </>
  );
}

function Note({ data }: { readonly data: Pipelines }): JSX.Element {
  const { processes, since } = data;
  return (
    <>
      {processes > 1 && `${processes} processes. `}Counting began <Time at={since} />. Rates are
      those of the last ten seconds.
    </>
  );
}

/** The components that need attention, each with its own words. */
function Troubles({ data }: { readonly data: Pipelines }): JSX.Element | null {
  const troubled = data.nodes.filter(
    ({ health }) => health !== null && !(health.ready && health.healthy),
  );
  if (troubled.length === 0) {
    return (
      <p class="good trouble">
        <Icon name="check" /> Every component is healthy.
      </p>
    );
  }
  return (
    <ul class="troubles" role="alert">
      {troubled.map(({ id, name, health }) => (
        <li key={id} class="trouble">
          <Icon name="warning" />
          <span>
            <strong class="user-text">{name}</strong>{' '}
            <span class="user-text">{health?.message ?? 'is not healthy'}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}
