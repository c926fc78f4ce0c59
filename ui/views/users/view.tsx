import type { JSX } from 'preact';
import { at } from '../../api/client.ts';
import { readUsers } from '../../api/reading.ts';
import type { User } from '../../api/types.ts';
import { cost, count } from '../../parts/format.ts';
import { GroupList } from '../../parts/group-list.tsx';
import { Link } from '../../parts/link.tsx';
import { isolated, nameText } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { tokensIn } from '../../parts/usage.ts';

/** `/users`: users of the application, the one with the newest trace first. */
export function View(): JSX.Element {
  return (
    <GroupList
      title="Users"
      load={readUsers}
      rowsOf={(page) => page.users}
      columns={COLUMNS}
      hint={
        <p>
          A trace belongs to a user if its client sends a <code>user_id</code> or the attribute{' '}
          <code>user.id</code>.
        </p>
      }
    />
  );
}

const COLUMNS = [
  {
    name: 'User',
    isHead: true,
    cell: ({ id }: User) => (
      <Link to={at`/users/${id}`} class="cut" title={isolated(nameText(id))}>
        {nameText(id)}
      </Link>
    ),
  },
  { name: 'Last seen', cell: ({ last_time }: User) => <Time at={last_time} /> },
  { name: 'First seen', cell: ({ first_time }: User) => <Time at={first_time} /> },
  { name: 'Sessions', isNumber: true, cell: ({ sessions }: User) => count(sessions) },
  { name: 'Traces', isNumber: true, cell: ({ traces }: User) => count(traces) },
  {
    name: 'Errors',
    isNumber: true,
    cell: ({ errors }: User) => <span class={errors > 0 ? 'bad' : ''}>{count(errors)}</span>,
  },
  { name: 'Tokens', isNumber: true, cell: ({ usage }: User) => count(tokensIn(usage)) },
  { name: 'Cost', isNumber: true, cell: ({ cost: amount }: User) => cost(amount?.total) },
];
