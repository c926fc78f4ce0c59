import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiFailure, at, get, send } from '../../api/client.ts';
import type { Keys, Project, ProjectChange } from '../../api/types.ts';
import { Confirm } from '../../parts/confirm.tsx';
import { Failure } from '../../parts/failure.tsx';
import { grouped } from '../../parts/format.ts';
import { chooseProject, loadProjects, project, projects } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { done } from '../../state/toasts.ts';
import { parseLimit, typedName } from './limits.ts';

type Closing = { readonly onClose: () => void };
type OfProject = Closing & { readonly of: Project };

export function CreateProject({ onClose }: Closing): JSX.Element {
  const [name, setName] = useState('');
  const run = async (): Promise<void> => {
    const created = await send<Project>('POST', '/projects', { body: { name } });
    projects.value = [...(projects.value ?? []), created];
    // The project is there, so a failure is no reason to ask again: a second click would create another one.
    await loadProjects().catch(() => undefined);
    chooseProject(created.id);
    done('The project is created, and is the project of the pages now.');
  };
  return (
    <Confirm title="Create a project" verb="Create project" run={run} onClose={onClose}>
      <p class="muted">
        A project separates an application or an environment. Each key belongs to one project.
      </p>
      <NameField name={name} onChange={setName} />
    </Confirm>
  );
}

export function RenameProject({ of, onClose }: OfProject): JSX.Element {
  const [name, setName] = useState(of.name);
  const run = async (): Promise<void> => {
    await send('PATCH', at`/projects/${of.id}`, { body: { name } });
    await loadProjects();
    done('The project is renamed. Its id and its keys are the same.');
  };
  return (
    <Confirm title="Rename the project" verb="Rename" run={run} onClose={onClose}>
      <NameField name={name} onChange={setName} />
    </Confirm>
  );
}

type NameProps = { readonly name: string; readonly onChange: (name: string) => void };

function NameField({ name, onChange }: NameProps): JSX.Element {
  return (
    <label>
      Name
      <input
        value={name}
        required
        maxLength={200}
        autocomplete="off"
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}

export function ChangeLimits({ of, onClose }: OfProject): JSX.Element {
  const [days, setDays] = useState(textOf(of.retention.days));
  const [events, setEvents] = useState(textOf(of.limits.events_per_month));
  const [bytes, setBytes] = useState(textOf(of.limits.bytes_per_hour));
  const run = async (): Promise<void> => {
    const limits = {
      events_per_month: limitOf(events, 'Events a month'),
      bytes_per_hour: limitOf(bytes, 'Bytes an hour'),
    };
    const retention = { days: limitOf(days, 'Retention') };
    // The retention in force may be that of the plan: unchanged, it stays so.
    const isSame = retention.days === of.retention.days;
    const body: ProjectChange = isSame ? { limits } : { limits, retention };
    await send('PATCH', at`/projects/${of.id}`, { body });
    await loadProjects();
    done('The limits are changed. They count from now on.');
  };
  return (
    <Confirm title="Retention and limits" verb="Change limits" run={run} onClose={onClose}>
      <p class="muted">
        An empty field is the value of the plan. The lower of the project’s and the organization’s
        limit counts.
      </p>
      <LimitField label="Retention in days" value={days} onChange={setDays} />
      <LimitField
        label="Events a month, such as 50,000 or 2M"
        value={events}
        onChange={setEvents}
      />
      <LimitField label="Bytes an hour, such as 512 MiB" value={bytes} onChange={setBytes} />
    </Confirm>
  );
}

type LimitProps = {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
};

function LimitField({ label, value, onChange }: LimitProps): JSX.Element {
  return (
    <label>
      {label}
      <input
        value={value}
        autocomplete="off"
        placeholder="of the plan"
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </label>
  );
}

function textOf(limit: number | null): string {
  return limit === null ? '' : grouped(limit);
}

function limitOf(text: string, field: string): number | null {
  const limit = parseLimit(text);
  if (limit !== undefined) return limit;
  const message = `${field}: give a whole number from 1, or leave the field empty.`;
  throw new ApiFailure(0, { code: 'invalid_field', message });
}

export function DeleteProject({ of, onClose }: OfProject): JSX.Element {
  const { data, failure, reload } = useResource(of.id, (signal) =>
    get<Keys>(at`/projects/${of.id}/keys`, { signal }),
  );
  const keys = data?.keys;
  const active = keys?.filter(({ revoked_at }) => revoked_at === null).length;
  const run = async (): Promise<void> => {
    const isCurrent = project.value?.id === of.id;
    await send('DELETE', at`/projects/${of.id}`);
    const next = projects.value?.find(({ id }) => id !== of.id);
    if (isCurrent && next !== undefined) chooseProject(next.id, { replace: true });
    await loadProjects();
    done('The project is deleted. Its keys are refused from now on.');
  };
  return (
    <Confirm
      title="Delete the project"
      verb="Delete"
      typed={typedName(of)}
      isDangerous
      run={run}
      onClose={onClose}
    >
      <p>
        Deleting <strong class="user-text">{of.name}</strong> removes, for good:
      </p>
      <ul class="losses">
        <li>
          <strong>{keys === undefined ? 'All API keys' : counted(keys.length, 'API key')}</strong>
          {active !== undefined && active > 0 && `, ${grouped(active)} of them in use or usable`}
        </li>
        <li>
          <strong>{counted(of.retained_traces, 'retained trace')}</strong> with all payloads
        </li>
      </ul>
      {failure !== undefined && <Failure failure={failure} retry={reload} />}
      <p class="muted">Its usage of this month stays counted.</p>
    </Confirm>
  );
}

function counted(value: number, noun: string): string {
  return `${grouped(value)} ${noun}${value === 1 ? '' : 's'}`;
}
