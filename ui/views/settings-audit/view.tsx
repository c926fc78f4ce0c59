import type { JSX } from 'preact';
import { get } from '../../api/client.ts';
import type { Audit } from '../../api/types.ts';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { ListEnd } from '../../parts/list-end.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { SettingsHead } from '../../parts/settings-head.tsx';
import { Tabs } from '../../parts/tabs.tsx';
import { Time } from '../../parts/time.tsx';
import { usePages } from '../../state/pages.ts';
import { query, setQuery } from '../../state/router.ts';
import { actionText, detailsText } from './audit.ts';
import { ErasureList } from './erasures.tsx';
import { SignIns } from './sign-ins.tsx';
import './settings-audit.css';

const TABS = ['Changes', 'Erasures', 'Sign-ins'] as const;
type Tab = (typeof TABS)[number];

const NOTES: Readonly<Record<Tab, string>> = {
  Changes:
    'Changes and reads of payloads with their actors, the newest first. No entry has a token or a payload.',
  Erasures: 'Traces that were removed on request, with the proof of each.',
  'Sign-ins': 'The browsers that are signed in. All sign-ins end when the admin token changes.',
};

/** Settings, Audit: changes, erasures, and the browsers that are signed in. */
export function View(): JSX.Element {
  const given = query.value.get('tab');
  const tab = TABS.find((each) => each === given) ?? 'Changes';
  return (
    <>
      <SettingsHead title="Audit" note={NOTES[tab]} />
      <Tabs
        label="Audit"
        names={TABS}
        chosen={tab}
        onChoose={(name) => setQuery({ tab: name }, { replace: true })}
      >
        {tab === 'Changes' && <Changes />}
        {tab === 'Erasures' && <ErasureList />}
        {tab === 'Sign-ins' && <SignIns />}
      </Tabs>
    </>
  );
}

const PAGE = 100;

function Changes(): JSX.Element {
  const list = usePages('audit', (cursor, signal) =>
    get<Audit>('/audit', { query: { limit: PAGE, cursor }, signal }),
  );
  const entries = list.pages?.flatMap(({ audit }, page) =>
    audit.map((entry, index) => ({ ...entry, id: `${page} ${index}` })),
  );
  if (entries === undefined) {
    const { failure, retry } = list;
    return failure === undefined ? <Loading /> : <Failure failure={failure} retry={retry} />;
  }
  if (entries.length === 0) return <Empty title="Nothing was changed yet" />;
  return (
    <>
      <RecordTable
        label="Audit log"
        rows={entries}
        keyOf={({ id }) => id}
        columns={[
          { name: 'When', cell: (entry) => <Time at={entry.at} /> },
          {
            name: 'Change',
            isHead: true,
            cell: ({ action }) => <span title={action}>{actionText(action)}</span>,
          },
          { name: 'Of', cell: ({ subject }) => <code class="user-text">{subject}</code> },
          {
            name: 'Details',
            cell: (entry) => <span class="user-text audit-details">{detailsText(entry)}</span>,
          },
          {
            name: 'By',
            cell: ({ actor, address }) => (
              <span class="audit-actor">
                {actor} <span class="muted">{address}</span>
              </span>
            ),
          },
        ]}
      />
      {list.failure !== undefined && <Failure failure={list.failure} retry={list.retry} />}
      <ListEnd list={list} end="No further changes" />
    </>
  );
}
