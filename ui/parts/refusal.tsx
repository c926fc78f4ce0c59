import type { JSX } from 'preact';
import type { ApiFailure } from '../api/client.ts';
import { Link } from './link.tsx';
import { Wait } from './wait.tsx';

/** How a person gets past a refusal. */
type Way = { readonly text: string; readonly to?: string; readonly link?: string };

const WAYS: Readonly<Record<string, Way>> = {
  project_limit: {
    text: 'The plan of your organization limits how many projects exist.',
    to: '/settings/usage',
    link: 'Change the plan',
  },
  plan_limit: {
    text: 'No project is deleted for you: a deletion removes keys and traces.',
    to: '/settings/projects',
    link: 'Delete projects',
  },
  last_project: { text: 'Create another project first. Keys and traces need one to belong to.' },
  invalid_retention: {
    text: 'A project keeps traces at most as long as its plan.',
    to: '/settings/usage',
    link: 'See the plan',
  },
  unknown_project: { text: 'Another person may have deleted it. Load the page again.' },
  unknown_key: { text: 'Its project may be deleted. Load the page again.' },
  unavailable: { text: 'Nothing was changed. Try again in a moment.' },
  no_answer: { text: 'Check that the daemon runs. Then look whether the change was made.' },
};

/** A refused change: the message of the daemon, how to get past it, and how long to wait. */
export function Refusal({ failure }: { readonly failure: ApiFailure }): JSX.Element {
  const way = WAYS[failure.code];
  return (
    <div role="alert" class="refusal">
      <p class="bad">{failure.message}</p>
      {way !== undefined && (
        <p>
          {way.text} {way.to !== undefined && <Link to={way.to}>{way.link}</Link>}
        </p>
      )}
      <Wait failure={failure} />
    </div>
  );
}
