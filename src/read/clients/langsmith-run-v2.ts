import { millisecondsBetween } from '../../model/details.ts';
import { Refusal } from '../../model/errors.ts';
import type { StoredObservation } from '../../store/store.ts';
import { shownName } from './langsmith-forms.ts';
import { runMembers, runPayloads } from './langsmith-run.ts';
import type { RunForm } from './run-page.ts';

const PAYLOADS = ['INPUTS', 'OUTPUTS', 'EVENTS', 'METADATA', 'EXTRA'];

/** The properties of a run that a client may select. */
const PROPERTIES: ReadonlySet<string> = new Set([
  ...PAYLOADS,
  ...['ID', 'NAME', 'RUN_TYPE', 'STATUS', 'START_TIME', 'END_TIME', 'LATENCY_SECONDS', 'ERROR'],
  'FIRST_TOKEN_TIME',
  ...['TRACE_ID', 'PARENT_RUN_IDS', 'DOTTED_ORDER', 'IS_ROOT', 'PROJECT_ID', 'THREAD_ID', 'TAGS'],
  ...['REFERENCE_EXAMPLE_ID', 'PROMPT_TOKENS', 'COMPLETION_TOKENS', 'TOTAL_TOKENS'],
  ...['PROMPT_COST', 'COMPLETION_COST', 'TOTAL_COST'],
  // No run has the further ones here. The client's own functions select some of them beside others, so they are not refused.
  ...['ERROR_PREVIEW', 'INPUTS_PREVIEW', 'OUTPUTS_PREVIEW', 'MANIFEST'],
  ...['REFERENCE_DATASET_ID', 'PROMPT_TOKEN_DETAILS', 'COMPLETION_TOKEN_DETAILS'],
  ...['PROMPT_COST_DETAILS', 'COMPLETION_COST_DETAILS', 'PRICE_MODEL_ID', 'APP_PATH'],
  ...['ATTACHMENTS', 'THREAD_EVALUATION_TIME', 'IS_IN_DATASET', 'LAST_QUEUED_AT', 'SHARE_URL'],
  ...['FEEDBACK_STATS', 'LS_USER_ID'],
]);

/**
 * The form of runs in the second version of LangSmith's API: what the client selects, and the id alone if it selects nothing.
 * Throws a `Refusal` (400) for an unknown property.
 */
export function selectedForm(given: readonly string[]): RunForm {
  checkSelects(given, PROPERTIES);
  const selects = new Set(given.length === 0 ? ['ID'] : given);
  const isSelected = ([name]: readonly [string, unknown]) => selects.has(name.toUpperCase());
  return {
    hasPayloads: PAYLOADS.some((one) => selects.has(one)),
    text(stored, payloads, ancestors) {
      const members = Object.entries(membersV2(stored, ancestors)).filter(isSelected);
      const texts = Object.entries(runPayloads(payloads)).filter(isSelected);
      const parts = [
        ...members.map(([name, value]) => `"${name}":${JSON.stringify(value)}`),
        ...texts.map(([name, text]) => `"${name}":${text}`),
      ];
      return `{${parts.join()}}`;
    },
  };
}

/** Throws a `Refusal` (400) for an unknown property. */
export function checkSelects(given: readonly string[], known: ReadonlySet<string>): void {
  const unknown = given.find((one) => !known.has(one));
  if (unknown === undefined) return;
  const message = `selects has the unknown property ${shownName(unknown)}.`;
  throw new Refusal('invalid_request', message);
}

/** The members that differ from those of the first version, beside those. */
function membersV2(stored: StoredObservation, ancestors: readonly StoredObservation[]) {
  const first = runMembers(stored, ancestors);
  const latency = millisecondsBetween(stored.startTime, stored.endTime);
  return {
    ...first,
    run_type: first.run_type.toUpperCase(),
    status: first.status.toUpperCase(),
    project_id: first.session_id,
    is_root: stored.parentId === null,
    latency_seconds: latency === undefined ? null : latency / 1000,
  };
}
