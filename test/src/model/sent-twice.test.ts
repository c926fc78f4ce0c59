import t from 'tap';
import { isSentTwice } from '../../../src/model/sent-twice.ts';

t.test('a client sends runs as spans too by its variables, of which the mode is the first', (t) => {
  const on = { LANGSMITH_OTEL_ENABLED: 'true' };
  const sentTwice = [
    on,
    { LANGSMITH_OTEL_ENABLED: 'TRUE' },
    { LANGSMITH_OTEL_ENABLED: '1' },
    { ...on, LANGSMITH_OTEL_ONLY: 'false' },
    { ...on, LANGSMITH_TRACING_MODE: ' ' },
    { LANGSMITH_TRACING_MODE: 'hybrid' },
    { ...on, LANGSMITH_OTEL_ONLY: 'true', LANGSMITH_TRACING_MODE: 'Hybrid' },
  ];
  for (const variables of sentTwice) t.equal(isSentTwice(variables), true, variables);
  const sentOnce = [
    {},
    { LANGSMITH_OTEL_ENABLED: 'false' },
    { LANGSMITH_OTEL_ENABLED: 'yes' },
    { LANGSMITH_OTEL_ONLY: 'true' },
    { ...on, LANGSMITH_OTEL_ONLY: 'true' },
    { ...on, LANGSMITH_OTEL_ONLY: '1' },
    { ...on, LANGSMITH_TRACING_MODE: 'otel' },
    { ...on, LANGSMITH_TRACING_MODE: 'langsmith' },
  ];
  for (const variables of sentOnce) t.equal(isSentTwice(variables), false, variables);
  t.end();
});
