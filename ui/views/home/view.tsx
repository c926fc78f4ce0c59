import { useEffect } from 'preact/hooks';
import { project } from '../../state/projects.ts';
import { hrefOf, navigate } from '../../state/router.ts';

/** Opens the list of traces; before the first trace, the page that helps to send one. */
export function View(): null {
  useEffect(() => {
    const isNew = (project.value?.retained_traces ?? 0) === 0;
    navigate(hrefOf(isNew ? '/start' : '/traces'), { replace: true });
  }, []);
  return null;
}
