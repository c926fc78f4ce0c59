import type { JSX } from 'preact';
import { Failure } from '../parts/failure.tsx';
import { Link } from '../parts/link.tsx';
import { Loading } from '../parts/loading.tsx';
import { isolated, nameText } from '../parts/text-pieces.ts';
import { chooseProject, loadProjects, projects } from '../state/projects.ts';
import { useResource } from '../state/resource.ts';
import { useTitle } from '../state/title.ts';

/** In the place of a page whose address has a project that does not exist. Another tab may have created it since the list was read. */
export function UnknownProject({ id }: { readonly id: string }): JSX.Element {
  const { failure, isLoading, reload } = useResource(id, loadProjects);
  useTitle('Unknown project');
  if (failure !== undefined) return <Failure failure={failure} retry={reload} />;
  if (isLoading) return <Loading />;
  return (
    <div class="empty">
      <h1>There is no such project</h1>
      <p>
        The address names the project <code class="user-text">{id.slice(0, 200)}</code>. It was
        deleted, or the address is of another daemon.
      </p>
      <div class="actions">
        {projects.value?.slice(0, SHOWN).map(({ id: other, name }) => (
          <button key={other} type="button" class="cut" onClick={() => chooseProject(other)}>
            Open {isolated(nameText(name, 100))}
          </button>
        ))}
        <Link to="/settings/projects">See all projects</Link>
      </div>
    </div>
  );
}

/** Projects that are offered: the switcher and the settings have all of them. */
const SHOWN = 5;
