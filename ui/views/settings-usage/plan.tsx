import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, send } from '../../api/client.ts';
import type { Organization, Plans } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Failure } from '../../parts/failure.tsx';
import { bytes, count } from '../../parts/format.ts';
import { Loading } from '../../parts/loading.tsx';
import { useResource } from '../../state/resource.ts';
import { done } from '../../state/toasts.ts';

type Limits = Organization['limits'];
type PlanName = Organization['plan'];

type Props = {
  readonly of: Organization;
  readonly onChanged: () => void;
  readonly onClose: () => void;
};

/** Compares the plans and changes to one. The daemon refuses a plan with fewer projects than there are. */
export function ChangePlan({ of, onChanged, onClose }: Props): JSX.Element {
  const [chosen, setChosen] = useState<PlanName>(of.plan);
  const { data, failure, reload } = useResource('plans', (signal) =>
    get<Plans>('/plans', { signal }),
  );
  const run = async (): Promise<void> => {
    await send('PATCH', '/organization', { body: { plan: chosen } });
    onChanged();
    done(`The plan is ${chosen} now. Its limits count without delay.`);
  };
  return (
    <Confirm title="Change the plan" verb="Change plan" run={run} onClose={onClose}>
      {failure !== undefined && <Failure failure={failure} retry={reload} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && (
        <fieldset class="plans">
          <legend class="unseen">Plan</legend>
          {data.plans.map(({ name, limits }) => (
            <label key={name} class={name === chosen ? 'is-chosen' : ''}>
              <input
                type="radio"
                name="plan"
                checked={name === chosen}
                onChange={() => setChosen(name)}
              />
              <span>
                <strong>{name}</strong> {name === of.plan && <span class="badge">current</span>}
                <span class="muted plan-limits">{limitsText(limits)}</span>
              </span>
            </label>
          ))}
        </fieldset>
      )}
      <p class="muted">
        A shorter retention removes the traces that are older. Usage of this month stays counted.
      </p>
    </Confirm>
  );
}

export function limitsText(limits: Limits): string {
  const { projects, events_per_month: events, bytes_per_hour: size, retention_days: days } = limits;
  return [
    projects === null
      ? 'any number of projects'
      : `${projects} project${projects === 1 ? '' : 's'}`,
    events === null ? 'events without limit' : `${count(events)} events a month`,
    size === null ? 'bytes without limit' : `${bytes(size)} an hour`,
    days === null ? 'retention without limit' : `${count(days)} days of retention`,
  ].join(' · ');
}
