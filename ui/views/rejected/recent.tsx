import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { at, get } from '../../api/client.ts';
import type { Key, Project, Rejections } from '../../api/types.ts';
import { Failure } from '../../parts/failure.tsx';
import { grouped, NOTHING } from '../../parts/format.ts';
import { nameOfKey } from '../../parts/key-name.ts';
import { Link } from '../../parts/link.tsx';
import { ListEnd } from '../../parts/list-end.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { Time } from '../../parts/time.tsx';
import { usePages } from '../../state/pages.ts';
import { query, setQuery } from '../../state/router.ts';
import { useIsVisible } from '../../state/visible.ts';

const PAGE = 100;
/** The daemon stores rejections a few seconds late. */
const REFRESH_MS = 4_000;

type Rejection = Rejections['rejections'][number];
type Props = { readonly of: Project; readonly keys: readonly Key[] };

/** The entries one by one, the newest first; only those of a code if one is chosen. */
export function Recent({ of, keys }: Props): JSX.Element | null {
  const code = query.value.get('code');
  const key = query.value.get('key');
  const list = usePages(of.id, (cursor, signal) =>
    get<Rejections>(at`/projects/${of.id}/rejections`, { query: { limit: PAGE, cursor }, signal }),
  );
  const isVisible = useIsVisible();
  useEffect(() => {
    // With further pages, a person reads older entries; each refresh would be a request for each of them.
    const isRefused = list.failure?.isFinal === true;
    if (!isVisible || isRefused || list.isLoading || list.pages?.length !== 1) return undefined;
    const timer = setTimeout(list.reload, REFRESH_MS);
    return () => clearTimeout(timer);
  }, [isVisible, list.pages, list.isLoading, list.failure]);
  const isWanted = (each: Rejection): boolean =>
    (code === null || each.code === code) && (key === null || each.key_id === key);
  const entries = list.pages
    ?.flatMap(({ rejections }, page) =>
      rejections.map((each, index) => ({ ...each, id: `${page} ${index}` })),
    )
    .filter(isWanted);
  const isFiltered = code !== null || key !== null;
  const pausedTo = pausedAt(list.pages ?? [], isWanted);
  if (entries === undefined || (entries.length === 0 && !list.hasMore && !isFiltered)) {
    const { failure, retry } = list;
    return failure === undefined ? null : <Failure failure={failure} retry={retry} />;
  }
  return (
    <section class="rejected-recent" aria-labelledby="rejected-recent">
      <div class="rejected-filters">
        <h2 id="rejected-recent">Lately</h2>
        <Filter name="code" text={code} />
        <Filter name="key" text={key === null ? null : nameOfKey(key, keys)} />
        {key !== null && (
          <Link to="/settings/keys" query={{ find: key, revoked: 'true' }}>
            See the key
          </Link>
        )}
        <button type="button" onClick={list.reload} disabled={list.isLoading}>
          Refresh
        </button>
      </div>
      <RecordTable
        label="Rejections"
        rows={entries}
        keyOf={({ id }) => id}
        columns={[
          { name: 'When', cell: (each) => <Time at={each.at} /> },
          { name: 'Code', cell: (each) => <code>{each.code}</code> },
          {
            name: 'Reason',
            isHead: true,
            cell: ({ reason }) => <span class="user-text rejected-reason">{reason}</span>,
          },
          { name: 'Path', cell: ({ path }) => <Path text={path} /> },
          {
            name: 'Key',
            cell: ({ key_id: id }) => (
              <button
                type="button"
                class="quiet rejected-key"
                title={`Only this key: ${id}`}
                onClick={() => setQuery({ key: id }, { replace: true })}
              >
                <span class="cut">{nameOfKey(id, keys)}</span>
              </button>
            ),
          },
          {
            name: 'Client',
            cell: ({ client }) => (
              <span class="cut rejected-item" title={client ?? ''}>
                {client ?? NOTHING}
              </span>
            ),
          },
          {
            name: 'Item',
            cell: ({ item_id: id }) =>
              id === null ? (
                <span class="muted">{NOTHING}</span>
              ) : (
                <code class="cut rejected-item" title={id}>
                  {id}
                </code>
              ),
          },
          { name: 'Items', isNumber: true, cell: (each) => grouped(each.count) },
        ]}
      />
      {list.failure !== undefined && <Failure failure={list.failure} retry={list.retry} />}
      <ListEnd
        list={{ ...list, searchedTo: pausedTo, isPaused: pausedTo !== undefined }}
        end="No further rejections"
      />
    </section>
  );
}

/** Pages without a wanted entry that are read one after the other: a log may have a million entries of another code. */
const FRUITLESS = 10;

/** The time that the search stops at until a person goes on; undefined if it need not stop. */
function pausedAt(
  pages: readonly Rejections[],
  isWanted: (each: Rejection) => boolean,
): string | undefined {
  const last = pages.findLastIndex(({ rejections }) => rejections.some(isWanted));
  const fruitless = pages.length - 1 - last;
  if (fruitless === 0 || fruitless % FRUITLESS !== 0) return undefined;
  return pages.at(-1)?.rejections.at(-1)?.at;
}

function Path({ text }: { readonly text: string }): JSX.Element {
  return (
    <code class="cut rejected-path" title={text}>
      {text}
    </code>
  );
}

type FilterProps = { readonly name: 'code' | 'key'; readonly text: string | null };

function Filter({ name, text }: FilterProps): JSX.Element | null {
  if (text === null) return null;
  return (
    <button type="button" onClick={() => setQuery({ [name]: undefined }, { replace: true })}>
      {name} <span class="cut rejected-item">{text}</span> ✕
    </button>
  );
}
