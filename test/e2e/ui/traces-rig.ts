import type { Locator } from 'playwright-core';
import { startUi, type Teardown, type UiRig } from './rig.ts';

/** A UI with a list of four traces, three of them in the range that the pages begin with. */
export type TracesRig = UiRig & {
  /** The rows of the list of traces, without its head. */
  rows(): Locator;
  /** A trace of one model call, as a client of the native format sends it. */
  traceOf(given: Sent): object;
  /** Sends traces, and waits until the store has them. */
  store(traces: readonly object[]): Promise<void>;
};

type Sent = {
  readonly name: string;
  readonly model?: string;
  readonly user?: string;
  readonly session?: string;
  readonly status?: string;
  readonly hoursAgo?: number;
  readonly ms?: number;
  readonly tokens?: number;
};

export const HOUR = 3_600_000;

export const REFUSAL = {
  ...{ status: 503, contentType: 'application/json' },
  body: JSON.stringify({ code: 'unavailable', message: 'The store is away.' }),
};

export async function startTraces(t: Teardown): Promise<TracesRig> {
  const ui = await startUi(t);
  const { page } = ui;
  const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
  const table = page.getByRole('table', { name: 'Traces' });
  let sent = 0;

  function traceOf(given: Sent): object {
    const {
      name,
      model = 'gpt-4o',
      status = 'success',
      hoursAgo = 1,
      ms = 1_000,
      tokens = 10,
    } = given;
    const start = Date.now() - hoursAgo * HOUR;
    sent += 1;
    return {
      ...{ observation_id: `o${sent}`, trace_id: `t${sent}`, operation: 'finish', kind: 'llm' },
      ...{ name, status, model, usage: { input_tokens: tokens, output_tokens: 5 } },
      start_time: new Date(start).toISOString(),
      end_time: new Date(start + ms).toISOString(),
      ttft_ms: 120,
      metadata: { user_id: given.user ?? 'ada', session_id: given.session ?? 'chat-1' },
      inputs: { messages: [{ role: 'user', content: `question about ${name}` }] },
      outputs: { role: 'assistant', content: `answer about ${name}` },
      ...(status === 'error' ? { error: { message: `${name} has no model` } } : {}),
    };
  }

  async function store(traces: readonly object[]): Promise<void> {
    await ui.sendEvents(traces);
    await ui.admin('GET', `/projects/${projects[0]?.id}/traces/t${sent}?wait=20s`);
  }

  await store([
    traceOf({ name: 'alpha', ms: 500, tokens: 900 }),
    traceOf({ name: 'beta', model: 'claude-sonnet-4-5', hoursAgo: 2, ms: 3_000, tokens: 100 }),
    traceOf({ name: 'gamma', status: 'error', hoursAgo: 3, user: 'bob', session: 'chat-2' }),
    traceOf({ name: 'old one', hoursAgo: 24 * 20 }),
  ]);
  const rows = (): Locator =>
    table.getByRole('row').filter({ hasNot: page.getByRole('columnheader') });
  return { ...ui, rows, traceOf, store };
}
