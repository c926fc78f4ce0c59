import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { at, get } from '../../api/client.ts';
import type { Organization, Project, UsageInForce } from '../../api/types.ts';
import { Failure } from '../../parts/failure.tsx';
import { Loading } from '../../parts/loading.tsx';
import { SettingsHead } from '../../parts/settings-head.tsx';
import { project } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { History } from './history.tsx';
import { OrganizationMeters, ProjectMeters } from './meters.tsx';
import { ChangePlan, limitsText } from './plan.tsx';
import './settings-usage.css';

const REFRESH_MS = 5_000;

/** Settings, Usage: what counts toward the plan, and its history. */
export function View(): JSX.Element {
  const [isChanging, setChanging] = useState(false);
  const { data, failure, again, reload } = useResource(
    'organization',
    (signal) => get<Organization>('/organization', { signal }),
    { every: REFRESH_MS },
  );
  const of = project.value;
  return (
    <>
      <SettingsHead title="Usage" note="Accepted events and bytes count; rejected ones do not." />
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && (
        <div class="usage">
          <section class="card" aria-labelledby="usage-plan">
            <div class="usage-head">
              <div>
                <h2 id="usage-plan">
                  Plan <span class="plan-name">{data.plan}</span>
                </h2>
                <p class="muted">{limitsText(data.limits)}</p>
              </div>
              <button type="button" onClick={() => setChanging(true)}>
                Change plan
              </button>
            </div>
            <OrganizationMeters of={data} />
          </section>
          {of !== undefined && <OfProject key={of.id} of={of} />}
          <History />
        </div>
      )}
      {isChanging && data !== undefined && (
        <ChangePlan of={data} onChanged={reload} onClose={() => setChanging(false)} />
      )}
    </>
  );
}

function OfProject({ of }: { readonly of: Project }): JSX.Element {
  const { data, failure, again, reload } = useResource(
    of.id,
    (signal) => get<UsageInForce>(at`/projects/${of.id}/usage`, { signal }),
    { every: REFRESH_MS },
  );
  return (
    <section class="card" aria-labelledby="usage-project">
      <h2 id="usage-project">
        Project <span class="user-text">{of.name}</span>
      </h2>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {data !== undefined && <ProjectMeters of={of} usage={data} />}
    </section>
  );
}
