const KINDS = ['span', 'llm', 'tool', 'chain', 'retriever'];
const STEP_MS = 1;

/** The events of one trace: chains of ten observations below the root, some of them failed. */
export function traceEvents(count: number): object[] {
  const begin = Date.now() - 600_000;
  const at = (ms: number): string => new Date(begin + ms * STEP_MS).toISOString();
  return Array.from({ length: count }, (_, index) => {
    const isFailed = index % 997 === 5;
    const isRoot = index === 0;
    return {
      ...{ trace_id: 'large', id: `large-${index}`, name: `step ${index}` },
      parent_id: isRoot ? null : index % 10 === 1 ? 'large-0' : `large-${index - 1}`,
      kind: KINDS[index % KINDS.length],
      operation: isFailed ? 'error' : 'finish',
      status: isFailed ? 'error' : 'success',
      start_time: at(index),
      end_time: at(isRoot ? count + 20 : index + 12 - (index % 10)),
      ...(index % 5 === 1
        ? { model: 'gpt-4.1-mini', usage: { input_tokens: 100 + (index % 50), output_tokens: 20 } }
        : {}),
      ...(isFailed ? { error: { type: 'TimeoutError', message: 'too late' } } : {}),
      inputs: { step: index },
    };
  });
}
