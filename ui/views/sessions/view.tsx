import type { JSX } from 'preact';
import { at } from '../../api/client.ts';
import { readSessions } from '../../api/reading.ts';
import type { Session } from '../../api/types.ts';
import { cost, count } from '../../parts/format.ts';
import { GroupList } from '../../parts/group-list.tsx';
import { Link } from '../../parts/link.tsx';
import { isolated, nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { tokensIn } from '../../parts/usage.ts';

/** `/sessions`: conversations, the one with the newest trace first. */
export function View(): JSX.Element {
  return (
    <GroupList
      title="Sessions"
      load={readSessions}
      rowsOf={(page) => page.sessions}
      columns={COLUMNS}
      hint={
        <p>
          A trace belongs to a session if its client sends a <code>session_id</code>, a{' '}
          <code>thread_id</code> or the attribute <code>session.id</code>.
        </p>
      }
    />
  );
}

const COLUMNS = [
  {
    name: 'Session',
    isHead: true,
    cell: ({ id }: Session) => (
      <Link to={at`/sessions/${id}`} class="cut" title={isolated(nameText(id))}>
        {nameText(id)}
      </Link>
    ),
  },
  {
    name: 'User',
    cell: ({ user_id }: Session) =>
      user_id && (
        <Link to={at`/users/${user_id}`} class="cut" title={isolated(nameText(user_id))}>
          {nameText(user_id)}
        </Link>
      ),
  },
  { name: 'Last', cell: ({ last_time }: Session) => <Time at={last_time} /> },
  { name: 'First', cell: ({ first_time }: Session) => <Time at={first_time} /> },
  { name: 'Traces', isNumber: true, cell: ({ traces }: Session) => count(traces) },
  {
    name: 'Errors',
    isNumber: true,
    cell: ({ errors }: Session) => <span class={errors > 0 ? 'bad' : ''}>{count(errors)}</span>,
  },
  { name: 'Tokens', isNumber: true, cell: ({ usage }: Session) => count(tokensIn(usage)) },
  { name: 'Cost', isNumber: true, cell: ({ cost: amount }: Session) => cost(amount?.total) },
];
