import type { ClientCase } from './client-case.ts';
import type { Expected } from './compare.ts';
import { SHELL_COMMAND } from './messages.ts';
import {
  ANSWER,
  ANTHROPIC_CALL_USAGE,
  CALL_USAGE,
  CLAUDE,
  MISSING_MODEL,
  MODEL,
  NOT_FOUND,
  QUESTION,
  TWO_ANTHROPIC_CALLS_USAGE,
  TWO_CALLS_USAGE,
} from './plot.ts';

const ANTHROPIC = { provider: 'anthropic' };

function claudeCode(): ClientCase {
  const root = { name: 'claude_code', kind: 'agent', ...ANTHROPIC };
  const call = {
    name: 'claude_code.api_request',
    kind: 'generation',
    model: CLAUDE,
    ...ANTHROPIC,
    usage: ANTHROPIC_CALL_USAGE,
    cost: { total: 0.00018675 },
  } as const;
  return {
    client: 'Claude Code',
    page: 'claude-code',
    section: 'claude',
    // It reaches for nothing but the model server and the daemon.
    prelude: 'export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1',
    list: 'agents',
    packages: ['@anthropic-ai/claude-code'],
    prints: /issue with the selected model \(no-such-model\)/,
    protocol: 'OTLP logs over HTTP, protobuf',
    calls: ['stream', 'tools', 'error'],
    traces: [
      {
        name: 'claude_code',
        usage: TWO_ANTHROPIC_CALLS_USAGE,
        tree: [
          {
            ...root,
            inputs: QUESTION,
            children: [
              call,
              { name: 'Bash', kind: 'tool', tool: 'Bash', inputs: { command: SHELL_COMMAND } },
              { ...call, outputs: ANSWER },
            ],
          },
        ],
      },
      {
        name: 'claude_code',
        tree: [
          {
            ...root,
            inputs: 'Hi',
            children: [
              {
                name: 'claude_code.api_error',
                kind: 'generation',
                model: MISSING_MODEL,
                ...ANTHROPIC,
                error: { message: NOT_FOUND },
              },
            ],
          },
        ],
      },
    ],
  };
}

/** Each call is there twice, as a span and as an event. */
function withTraces(): ClientCase {
  const traces = claudeCode().traces.map(({ usage, tree }) => {
    const [root] = tree;
    const { inputs, children: events = [] } = root ?? {};
    const isError = events.some(({ error }) => error !== undefined);
    const name = 'claude_code.interaction';
    const prompt: Expected = { name: 'claude_code.user_prompt', kind: 'event', inputs };
    const children = [prompt, ...events, ...(isError ? [FAILED_SPAN] : SPANS)];
    return { name, ...(usage && { usage }), tree: [{ name, kind: 'agent', inputs, children }] };
  });
  return {
    ...claudeCode(),
    client: 'Claude Code, with traces',
    variant: 'traces',
    protocol: 'OTLP over HTTP, protobuf; logs and spans',
    traces,
  };
}

const FAILED_SPAN: Expected = {
  name: 'claude_code.llm_request',
  kind: 'generation',
  model: MISSING_MODEL,
  ...ANTHROPIC,
  error: { message: NOT_FOUND },
};
const CALL_SPAN: Expected = {
  name: 'claude_code.llm_request',
  kind: 'generation',
  model: CLAUDE,
  ...ANTHROPIC,
  hasFirstToken: true,
};
const SPANS: readonly Expected[] = [
  CALL_SPAN,
  {
    name: 'claude_code.tool',
    kind: 'tool',
    children: [
      { name: 'claude_code.tool.blocked_on_user', kind: 'span' },
      { name: 'claude_code.tool.execution', kind: 'span' },
    ],
  },
  CALL_SPAN,
];

/** The settings of the model; Codex reads no variable for its address. */
const CODEX_CONFIG = `mkdir -p ~/.codex
cat >~/.codex/config.toml <<END
model = "${MODEL}"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.fake]
name = "fake"
base_url = "$OPENAI_BASE_URL"
wire_api = "responses"
env_key = "OPENAI_API_KEY"

END`;

function codex(): ClientCase {
  const usage = (calls: typeof CALL_USAGE) => ({ ...calls, cache_write_tokens: 0 });
  const call: Expected = {
    name: 'codex.sse_event',
    kind: 'generation',
    model: MODEL,
    provider: 'openai',
    usage: usage(CALL_USAGE),
  };
  const request: Expected = { name: 'codex.api_request', kind: 'span' };
  const event = (name: string, more: object = {}) => ({ name, kind: 'event', ...more });
  return {
    client: 'Codex',
    page: 'codex',
    section: 'codex',
    prelude: CODEX_CONFIG,
    list: 'agents',
    packages: ['@openai/codex'],
    // Its log, which has everything that it does.
    prints: /^/,
    protocol: 'OTLP logs over HTTP, protobuf',
    calls: ['stream', 'tools'],
    traces: [
      {
        name: 'codex',
        usage: usage(TWO_CALLS_USAGE),
        tree: [
          {
            name: 'codex',
            kind: 'agent',
            inputs: QUESTION,
            children: [
              event('codex.startup_phase'),
              event('codex.startup_phase'),
              event('codex.user_prompt', { inputs: QUESTION }),
              event('codex.turn_ttft'),
              request,
              call,
              {
                name: 'exec_command',
                kind: 'tool',
                tool: 'exec_command',
                inputs: { cmd: SHELL_COMMAND },
                outputs: /\n4 degrees\n$/,
              },
              request,
              call,
            ],
          },
        ],
      },
    ],
  };
}

/** The programs of coding agents, which `npm run test:clients` runs. */
export const AGENT_CASES: readonly ClientCase[] = [claudeCode(), withTraces(), codex()];
