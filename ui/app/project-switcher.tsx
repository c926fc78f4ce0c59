import type { JSX } from 'preact';
import { Icon } from '../parts/icon.tsx';
import { Menu } from '../parts/menu.tsx';
import { chooseProject, project, projects } from '../state/projects.ts';
import { hrefOf, navigate } from '../state/router.ts';

/** Names the project of the page, and changes it. */
export function ProjectSwitcher(): JSX.Element {
  const current = project.value;
  const items = (projects.value ?? []).map(({ id, name }) => ({
    id,
    label: name,
    isChosen: id === current?.id,
    run: () => chooseProject(id),
  }));
  const manage = {
    id: 'manage',
    label: 'Manage projects…',
    run: () => navigate(hrefOf('/settings/projects')),
  };
  return (
    <Menu
      class="switcher"
      label={`Project: ${current?.name ?? 'none'}`}
      items={[...items, manage]}
      button={
        <>
          <span class="switcher-name">{current?.name ?? 'none'}</span>
          <Icon name="down" />
        </>
      }
    />
  );
}
