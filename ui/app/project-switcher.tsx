import type { JSX } from 'preact';
import { Icon } from '../parts/icon.tsx';
import { Menu } from '../parts/menu.tsx';
import { nameText } from '../parts/text-pieces.ts';
import { chooseProject, project, projects } from '../state/projects.ts';
import { hrefOf, navigate } from '../state/router.ts';

/** Names the project of the page, and changes it. */
export function ProjectSwitcher(): JSX.Element {
  const current = project.value;
  const shown = current === undefined ? 'none' : nameText(current.name);
  const items = (projects.value ?? []).map(({ id, name }) => ({
    id,
    label: nameText(name),
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
      label={`Project: ${shown}`}
      items={[...items, manage]}
      find="Find a project"
      button={
        <>
          <span class="switcher-name">{shown}</span>
          <Icon name="down" />
        </>
      }
    />
  );
}
