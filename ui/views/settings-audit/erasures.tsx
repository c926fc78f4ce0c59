import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { at, get } from '../../api/client.ts';
import type { Erasure, Erasures } from '../../api/types.ts';
import { CopyButton } from '../../parts/copy-button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Empty } from '../../parts/empty.tsx';
import { Failure } from '../../parts/failure.tsx';
import { bytes, exact, grouped } from '../../parts/format.ts';
import { ListEnd } from '../../parts/list-end.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { Time } from '../../parts/time.tsx';
import { usePages } from '../../state/pages.ts';
import { project } from '../../state/projects.ts';
import { copyText } from './audit.ts';

const PAGE = 50;
const BADGES: Readonly<Record<Erasure['state'], string>> = {
  running: 'warn',
  done: 'good',
  counted: '',
  failed: 'bad',
};

/** The erasures of the chosen project. */
export function ErasureList(): JSX.Element {
  const [shown, setShown] = useState<Erasure | undefined>(undefined);
  const of = project.value;
  const list = usePages(of?.id, (cursor, signal) =>
    get<Erasures>(at`/projects/${of?.id ?? ''}/erasures`, {
      query: { limit: PAGE, cursor },
      signal,
    }),
  );
  const erasures = list.pages?.flatMap((page) => page.erasures);
  if (erasures === undefined) {
    const { failure, retry } = list;
    return failure === undefined ? <Loading /> : <Failure failure={failure} retry={retry} />;
  }
  if (erasures.length === 0) {
    return (
      <Empty title="Nothing was erased">
        <p>
          No erasure was asked for in <strong class="user-text">{of?.name}</strong>. Delete a trace
          on its page, or erase by a query: <code>tracectl erase</code>.
        </p>
      </Empty>
    );
  }
  return (
    <>
      <RecordTable
        label="Erasures"
        rows={erasures}
        keyOf={({ id }) => id}
        columns={[
          { name: 'Asked', cell: (each) => <Time at={each.requested_at} /> },
          {
            name: 'Query',
            isHead: true,
            cell: ({ q }) => <code class="user-text erasure-query">{q}</code>,
          },
          { name: 'State', cell: (each) => <State of={each} /> },
          { name: 'Traces', isNumber: true, cell: ({ traces }) => grouped(traces) },
          { name: 'Observations', isNumber: true, cell: (each) => grouped(each.observations) },
          { name: 'By', cell: ({ requested_by: by }) => by },
          {
            name: 'Receipt',
            isActions: true,
            cell: (each) =>
              each.receipt !== null && (
                <button type="button" onClick={() => setShown(each)}>
                  Receipt
                </button>
              ),
          },
        ]}
      />
      {list.failure !== undefined && <Failure failure={list.failure} retry={list.retry} />}
      <ListEnd list={list} end="No further erasures" />
      {shown !== undefined && <Receipt of={shown} onClose={() => setShown(undefined)} />}
    </>
  );
}

function State({ of }: { readonly of: Erasure }): JSX.Element {
  const { state, dry_run: isDry, failure } = of;
  return (
    <span class={`badge ${BADGES[state]}`} title={failure ?? ''}>
      {isDry ? `${state}, dry run` : state}
    </span>
  );
}

type ReceiptProps = { readonly of: Erasure; readonly onClose: () => void };

function Receipt({ of, onClose }: ReceiptProps): JSX.Element | null {
  const { receipt } = of;
  if (receipt === null) return null;
  const rows: readonly (readonly [string, string])[] = [
    ['Erasure', of.id],
    ['Query', of.q],
    ['Traces', grouped(receipt.traces)],
    ['Observations', grouped(receipt.observations)],
    ['Bytes', bytes(receipt.bytes)],
    ['Hash of the ids', receipt.ids_hash],
    ['Damaged batches', grouped(receipt.unreadable_batches)],
    ['Verified', exact(receipt.verified_at)],
    ['Blocked until', of.block_until === null ? 'not blocked' : exact(of.block_until)],
  ];
  return (
    <Dialog title="Receipt of the erasure" onClose={onClose}>
      <dl class="receipt">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="user-text">{value}</dd>
          </div>
        ))}
      </dl>
      {receipt.copies.length > 0 && (
        <div>
          <h3>Where a copy may still be</h3>
          <ul class="receipt-copies">
            {receipt.copies.map((copy) => (
              <li key={copy} class="user-text">
                {copyText(copy)}
              </li>
            ))}
          </ul>
        </div>
      )}
      <div class="dialog-foot">
        <CopyButton text={JSON.stringify(of, null, 2)} label="Copy as JSON" />
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
