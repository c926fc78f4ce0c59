import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { Project } from '../../api/types.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { isFound } from '../../parts/find.ts';
import { FindBar, wantedText } from '../../parts/find-field.tsx';
import { bytes, count, grouped } from '../../parts/format.ts';
import { Icon } from '../../parts/icon.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { SettingsHead } from '../../parts/settings-head.tsx';
import { nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { chooseProject, loadProjects, project, projects } from '../../state/projects.ts';
import { useResource } from '../../state/resource.ts';
import { ChangeLimits, CreateProject, DeleteProject, RenameProject } from './dialogs.tsx';
import './settings-projects.css';

/** Milliseconds between two counts of retained traces. */
const REFRESH_MS = 15_000;

type Asked = { readonly what: 'create' } | { readonly what: Change; readonly of: Project };
type Change = 'rename' | 'limits' | 'delete';

/** Settings, Projects: every project with what it keeps, and its management. */
export function View(): JSX.Element {
  const [asked, setAsked] = useState<Asked | undefined>(undefined);
  const { failure, again, reload } = useResource('projects', loadProjects, { every: REFRESH_MS });
  const all = projects.value;
  return (
    <>
      <SettingsHead title="Projects" note="Each API key, and every trace, belongs to one project.">
        <button type="button" class="primary" onClick={() => setAsked({ what: 'create' })}>
          <Icon name="plus" /> Create project
        </button>
      </SettingsHead>
      {failure !== undefined && <Failure failure={failure} retry={reload} again={again} />}
      {all === undefined ? (
        failure === undefined && <Loading />
      ) : (
        <FoundProjects all={all} ask={(what, of) => setAsked({ what, of })} />
      )}
      {asked !== undefined && <Question asked={asked} onClose={() => setAsked(undefined)} />}
    </>
  );
}

type QuestionProps = { readonly asked: Asked; readonly onClose: () => void };

function Question({ asked, onClose }: QuestionProps): JSX.Element {
  if (asked.what === 'create') return <CreateProject onClose={onClose} />;
  const DIALOGS = { rename: RenameProject, limits: ChangeLimits, delete: DeleteProject };
  const Asking = DIALOGS[asked.what];
  return <Asking of={asked.of} onClose={onClose} />;
}

type TableProps = {
  readonly all: readonly Project[];
  readonly ask: (what: Change, of: Project) => void;
};

function FoundProjects({ all, ask }: TableProps): JSX.Element {
  const wanted = wantedText();
  const found = all.filter(({ id, name }) => isFound(wanted, name, id));
  return (
    <>
      <FindBar label="Find a project" found={found.length} total={all.length} />
      {found.length > 0 || wanted === '' ? (
        <ProjectTable all={found} ask={ask} />
      ) : (
        <Empty title="No project is found" />
      )}
    </>
  );
}

function ProjectTable({ all, ask }: TableProps): JSX.Element {
  const current = project.value?.id;
  return (
    <RecordTable
      label="Projects"
      rows={all}
      keyOf={({ id }) => id}
      columns={[
        { name: 'Project', isHead: true, cell: (each) => <Name of={each} current={current} /> },
        {
          name: 'Retained traces',
          isNumber: true,
          cell: ({ retained_traces: traces }) => (
            <span title={grouped(traces)}>{count(traces)}</span>
          ),
        },
        { name: 'Retention', isNumber: true, cell: ({ retention }) => daysText(retention.days) },
        {
          name: 'Own limits',
          isNumber: true,
          cell: ({ limits }) => <OwnLimits {...limits} />,
        },
        { name: 'Created', isNumber: true, cell: (each) => <Time at={each.created_at} /> },
        {
          name: 'Actions',
          isActions: true,
          cell: (each) => (
            <>
              {each.id !== current && (
                <button type="button" onClick={() => chooseProject(each.id)}>
                  Switch
                </button>
              )}
              <button type="button" onClick={() => ask('rename', each)}>
                Rename
              </button>
              <button type="button" onClick={() => ask('limits', each)}>
                Change limits
              </button>
              <button type="button" onClick={() => ask('delete', each)}>
                Delete
              </button>
            </>
          ),
        },
      ]}
    />
  );
}

type NameProps = { readonly of: Project; readonly current: string | undefined };

function Name({ of: { id, name }, current }: NameProps): JSX.Element {
  return (
    <div class="project-name">
      <span class="project-title">
        <span class="user-text">{nameText(name)}</span>
        {id === current && <span class="badge good">current</span>}
      </span>
      <span class="muted project-id">
        <span class="mono">{id}</span> <CopyButton text={id} label="Copy the id" isIconOnly />
      </span>
    </div>
  );
}

function OwnLimits(limits: Project['limits']): JSX.Element {
  const { events_per_month: events, bytes_per_hour: size } = limits;
  if (events === null && size === null) return <span class="muted">of the plan</span>;
  return (
    <span class="own-limits">
      {events !== null && <span title={grouped(events)}>{count(events)} events/month</span>}
      {size !== null && <span title={grouped(size)}>{bytes(size)}/hour</span>}
    </span>
  );
}

function daysText(days: number | null): string {
  if (days === null) return 'unlimited';
  return `${grouped(days)} ${days === 1 ? 'day' : 'days'}`;
}
