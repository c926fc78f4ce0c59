import './scores.css';
import type { JSX, RefObject } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { ApiFailure, at, get, send } from '../../api/client.ts';
import type { Scores, Trace, TreeObservation } from '../../api/types.ts';
import { Choice } from '../../parts/choice.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { Failure } from '../../parts/failure.tsx';
import { Loading } from '../../parts/loading.tsx';
import { RecordTable } from '../../parts/record-table.tsx';
import { Refusal } from '../../parts/refusal.tsx';
import { nameText, visible } from '../../parts/text-pieces.ts';
import { Time } from '../../parts/time.tsx';
import { useResource } from '../../state/resource.ts';
import { done } from '../../state/toasts.ts';
import type { Draft } from './score-draft.ts';
import { draftOf, NEW_SCORE, scoreOf, VALUE_KINDS } from './score-draft.ts';
import { scoreText } from './values.ts';

type Score = Scores['scores'][number];

type Props = {
  readonly projectId: string;
  readonly trace: Trace;
  /** The observation that the page shows: a score may be about it. */
  readonly observation: TreeObservation | undefined;
  readonly onSaved: () => void;
  readonly onClose: () => void;
};

/** The scores of a trace and of its observations, and a form that adds one or changes one. */
export function ScoresDialog(props: Props): JSX.Element {
  const { projectId, trace, observation, onSaved, onClose } = props;
  const [draft, setDraft] = useState<Draft>(NEW_SCORE);
  const form = useRef<HTMLFormElement>(null);
  const path = at`/projects/${projectId}/traces/${trace.id}/scores`;
  const { data, failure, reload } = useResource(path, (signal) => get<Scores>(path, { signal }));
  const scores = data?.scores ?? [];
  const begin = (next: Draft): void => {
    setDraft(next);
    form.current?.querySelector('input')?.focus();
  };
  const save = async (): Promise<void> => {
    await send('POST', path, { body: scoreOf(draft) });
    done('The score is saved.');
    begin(NEW_SCORE);
    reload();
    onSaved();
  };
  return (
    <Dialog title="Scores of the trace" onClose={onClose}>
      {failure !== undefined && <Failure failure={failure} retry={reload} />}
      {data === undefined && failure === undefined && <Loading />}
      {data !== undefined && scores.length === 0 && (
        <p class="muted">The trace has no score yet.</p>
      )}
      {scores.length > 0 && (
        <ScoreTable scores={scores} onEdit={(score) => begin(draftOf(score))} />
      )}
      <ScoreForm
        place={form}
        draft={draft}
        observation={observation}
        onChange={setDraft}
        onSave={save}
        onCancel={() => begin(NEW_SCORE)}
      />
      <div class="dialog-foot">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

type TableProps = {
  readonly scores: readonly Score[];
  readonly onEdit: (score: Score) => void;
};

function ScoreTable({ scores, onEdit }: TableProps): JSX.Element {
  return (
    <RecordTable
      label="Scores"
      rows={scores}
      keyOf={({ id }) => id}
      columns={[
        {
          name: 'Name',
          isHead: true,
          cell: ({ name, comment, observation_id: of }) => (
            <div>
              <span class="user-text">{visible(nameText(name))}</span>
              {of !== null && (
                <div class="muted user-text">of observation {visible(nameText(of, 100))}</div>
              )}
              {comment !== null && (
                <div class="user-text score-comment">{visible(nameText(comment, 2_000))}</div>
              )}
            </div>
          ),
        },
        {
          name: 'Value',
          cell: ({ value }) => <span class="user-text">{visible(scoreText(value))}</span>,
        },
        {
          name: 'By',
          cell: ({ source }) => <span class="user-text">{visible(source ?? '–')}</span>,
        },
        { name: 'When', cell: (score) => <Time at={score.created_at} /> },
        {
          name: 'Actions',
          isActions: true,
          cell: (score) => (
            <button type="button" onClick={() => onEdit(score)}>
              Edit
            </button>
          ),
        },
      ]}
    />
  );
}

type FormProps = {
  readonly place: RefObject<HTMLFormElement | null>;
  readonly draft: Draft;
  readonly observation: TreeObservation | undefined;
  readonly onChange: (draft: Draft) => void;
  readonly onSave: () => Promise<void>;
  readonly onCancel: () => void;
};

function ScoreForm(props: FormProps): JSX.Element {
  const { place, draft, observation, onChange, onSave, onCancel } = props;
  const [failure, setFailure] = useState<ApiFailure | undefined>(undefined);
  const [isBusy, setBusy] = useState(false);
  const isNew = draft.id === undefined;
  const change = (changes: Partial<Draft>): void => onChange({ ...draft, ...changes });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setFailure(await onSave().then(() => undefined, ApiFailure.of));
    setBusy(false);
  };
  return (
    <form class="score-form" ref={place} onSubmit={(event) => void submit(event)}>
      <h3>{isNew ? 'Add a score' : 'Change the score'}</h3>
      <label>
        Name
        <input
          value={draft.name}
          required
          maxLength={200}
          autocomplete="off"
          onInput={({ currentTarget }) => change({ name: currentTarget.value })}
        />
      </label>
      <ValueField draft={draft} change={change} />
      <label>
        Comment
        <textarea
          rows={2}
          value={draft.comment}
          maxLength={8192}
          onInput={({ currentTarget }) => change({ comment: currentTarget.value })}
        />
      </label>
      {isNew && observation !== undefined && (
        <AboutField observation={observation} draft={draft} change={change} />
      )}
      {failure !== undefined && <Refusal failure={failure} />}
      <div class="actions">
        <button type="submit" class="primary" disabled={isBusy}>
          {isNew ? 'Add score' : 'Save score'}
        </button>
        {!isNew && (
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        )}
      </div>
    </form>
  );
}

type FieldProps = {
  readonly draft: Draft;
  readonly change: (changes: Partial<Draft>) => void;
};

function ValueField({ draft: { kind, value }, change }: FieldProps): JSX.Element {
  const set = ({ currentTarget }: { readonly currentTarget: { readonly value: string } }): void =>
    change({ value: currentTarget.value });
  return (
    <div class="score-value">
      <Choice
        label="Kind of value"
        options={VALUE_KINDS}
        chosen={kind}
        onChoose={(next) => change({ kind: next, value: next === 'boolean' ? 'true' : '' })}
      />
      {kind === 'boolean' ? (
        <select aria-label="Value" value={value} onChange={set}>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      ) : (
        <input
          aria-label="Value"
          value={value}
          required
          maxLength={1_000}
          autocomplete="off"
          inputMode={kind === 'number' ? 'decimal' : 'text'}
          placeholder={kind === 'number' ? 'Value, such as 0.8' : 'Value'}
          onInput={set}
        />
      )}
    </div>
  );
}

type AboutProps = FieldProps & { readonly observation: TreeObservation };

function AboutField({ observation: { id, name }, draft, change }: AboutProps): JSX.Element {
  return (
    <label class="score-about">
      <input
        type="checkbox"
        checked={draft.observationId !== null}
        onChange={({ currentTarget }) =>
          change({ observationId: currentTarget.checked ? id : null })
        }
      />
      <span>
        Only about the observation <span class="user-text">{visible(nameText(name, 100))}</span>
      </span>
    </label>
  );
}
