import fc from 'fast-check';
import t from 'tap';
import type { Message } from '../../../ui/parts/conversation.ts';
import { conversationOf } from '../../../ui/parts/conversation.ts';
import type { MessagePart } from '../../../ui/parts/message-parts.ts';
import { IMAGE_BYTES, jsonOf, safeImage } from '../../../ui/parts/message-parts.ts';

/** A conversation in short: `user: text`, with `*` before the output. */
function brief(messages: readonly Message[] | undefined): string[] | undefined {
  return messages?.map(
    ({ role, parts, isOutput }) => `${isOutput ? '*' : ''}${role}: ${parts.map(word).join(' ')}`,
  );
}

function word(part: MessagePart): string {
  switch (part.type) {
    case 'text':
      return part.text;
    case 'reasoning':
      return `(${part.text})`;
    case 'image':
      return `<${part.url.slice(0, 22)}>`;
    case 'tool_call': {
      const result = part.result === undefined ? '' : ` = ${part.result.map(word).join(' ')}`;
      return `${part.name}(${JSON.stringify(part.input)})${result}`;
    }
    case 'tool_result':
      return `${part.id ?? ''}= ${part.parts.map(word).join(' ')}`;
    case 'data':
      return JSON.stringify(part.value);
  }
}

const lc = (name: string, kwargs: object) => ({
  ...{ lc: 1, type: 'constructor', id: ['langchain_core', 'messages', name], kwargs },
});

/** Inputs and outputs as the daemon has them of requests that real clients sent. */
const CAPTURED: Readonly<Record<string, [inputs: unknown, outputs: unknown, brief: string[]]>> = {
  'LlamaIndex, a call of a tool': [
    [
      { role: 'user', additional_kwargs: {}, blocks: [{ block_type: 'text', text: 'Weather?' }] },
      {
        role: 'assistant',
        additional_kwargs: {
          tool_calls: [
            {
              ...{ index: 0, id: 'call_29', type: 'function' },
              function: { arguments: '{"city":"Oslo"}', name: 'get_weather' },
            },
          ],
        },
        blocks: [
          { block_type: 'text', text: '' },
          {
            ...{ block_type: 'tool_call', tool_call_id: 'call_29', tool_name: 'get_weather' },
            tool_kwargs: '{"city":"Oslo"}',
          },
        ],
      },
      {
        role: 'tool',
        additional_kwargs: { tool_call_id: 'call_29' },
        blocks: [{ block_type: 'text', text: '4 degrees' }],
      },
    ],
    { role: 'assistant', blocks: [{ block_type: 'text', text: 'It is 4 degrees.' }] },
    [
      'user: Weather?',
      'assistant:  get_weather({"city":"Oslo"}) = 4 degrees',
      '*assistant: It is 4 degrees.',
    ],
  ],
  'OpenInference, a call of a tool': [
    {
      model: 'gpt-4.1-mini',
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'look' },
            { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          ],
        },
      ],
      tools: [{ type: 'function', function: { name: 'get_weather', parameters: {} } }],
    },
    {
      ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'gpt-4.1-mini' },
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            tool_calls: [
              {
                ...{ id: 'call_1', type: 'function' },
                function: { name: 'get_weather', arguments: '{"location":"Paris"}' },
              },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
      usage: { prompt_tokens: 12, completion_tokens: 6, total_tokens: 18 },
    },
    ['user: look <data:image/png;base64,>', '*assistant: get_weather({"location":"Paris"})'],
  ],
  'OpenInference, a stream': [
    { model: 'gpt-4.1-mini', stream: true, messages: [{ role: 'user', content: 'go' }] },
    'Hello 🌊',
    ['user: go', '*assistant: Hello 🌊'],
  ],
  'GenAI conventions': [
    [
      { role: 'system', parts: [{ type: 'text', content: 'You are helpful' }] },
      { role: 'user', parts: [{ type: 'text', content: 'Weather in Paris?' }] },
    ],
    [
      {
        role: 'assistant',
        parts: [
          {
            type: 'tool_call',
            id: 'call_1',
            name: 'get_weather',
            arguments: { location: 'Paris' },
          },
        ],
        finish_reason: 'tool_call',
      },
    ],
    [
      'system: You are helpful',
      'user: Weather in Paris?',
      '*assistant: get_weather({"location":"Paris"})',
    ],
  ],
  'GenAI events': [
    [
      { role: 'system', content: 'be nice' },
      { role: 'user', content: 'hi' },
    ],
    [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'hello' } }],
    ['system: be nice', 'user: hi', '*assistant: hello'],
  ],
  OpenLLMetry: [
    [{ role: 'user', content: 'hi' }],
    [{ role: 'assistant', content: 'yo', finish_reason: 'stop' }],
    ['user: hi', '*assistant: yo'],
  ],
  'LangChain, a model': [
    {
      messages: [
        [
          lc('SystemMessage', { content: 'be nice', additional_kwargs: {} }),
          lc('HumanMessage', { content: '3', additional_kwargs: {} }),
        ],
      ],
    },
    {
      generations: [
        [
          {
            message: lc('AIMessageChunk', { content: 'Привет', tool_calls: [] }),
            text: 'Привет',
            generationInfo: {},
          },
        ],
      ],
      llmOutput: {},
    },
    ['system: be nice', 'user: 3', '*assistant: Привет'],
  ],
  'LangChain, a prompt': [
    { q: '3' },
    lc('ChatPromptValue', { messages: [lc('HumanMessage', { content: '3' })] }),
    ['user: {"q":"3"}', '*user: 3'],
  ],
  'LangSmith, wrapped OpenAI': [
    { input: [{ role: 'user', content: 'meaning?' }] },
    {
      choices: [{ message: { role: 'assistant', content: '42' } }],
      usage_metadata: { input_tokens: 11 },
    },
    ['user: meaning?', '*assistant: 42'],
  ],
  Langfuse: [
    [{ role: 'user', content: 'hi' }],
    { role: 'assistant', content: 'yo' },
    ['user: hi', '*assistant: yo'],
  ],
};

const DOCUMENTED: Readonly<Record<string, [inputs: unknown, outputs: unknown, brief: string[]]>> = {
  'Anthropic, with a result and thinking': [
    {
      system: [{ type: 'text', text: 'Be brief.' }],
      messages: [
        { role: 'user', content: 'Weather?' },
        {
          role: 'assistant',
          content: [{ type: 'tool_use', id: 'toolu_1', name: 'weather', input: { in: 'Paris' } }],
        },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'rain' }],
        },
      ],
    },
    {
      ...{ type: 'message', role: 'assistant', stop_reason: 'end_turn' },
      content: [
        { type: 'thinking', thinking: 'hm', signature: 'x' },
        { type: 'text', text: 'It rains.' },
      ],
    },
    [
      'system: Be brief.',
      'user: Weather?',
      'assistant: weather({"in":"Paris"}) = rain',
      '*assistant: (hm) It rains.',
    ],
  ],
  'OpenAI responses': [
    { instructions: 'Be brief.', input: 'Weather?' },
    {
      object: 'response',
      output: [
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }] },
        { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'w', arguments: '{"a":1}' },
        { type: 'function_call_output', call_id: 'call_1', output: 'rain' },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Rain.' }] },
      ],
    },
    [
      'system: Be brief.',
      'user: Weather?',
      '*assistant: (hm)',
      '*assistant: w({"a":1}) = rain',
      '*assistant: Rain.',
    ],
  ],
  Gemini: [
    {
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        { role: 'user', parts: [{ inlineData: { mimeType: 'image/png', data: 'AAAA' } }] },
        { role: 'model', parts: [{ functionCall: { name: 'f', args: { a: 1 } } }] },
      ],
    },
    { candidates: [{ content: { role: 'model', parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }] },
    [
      'system: Be brief.',
      'user: <data:image/png;base64,>',
      'assistant: f({"a":1})',
      '*assistant: Hi',
    ],
  ],
  'the AI SDK': [
    {
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'hi' }] },
        {
          role: 'assistant',
          content: [{ type: 'tool-call', toolCallId: 'c', toolName: 'f', input: { a: 1 } }],
        },
        {
          role: 'tool',
          content: [{ type: 'tool-result', toolCallId: 'c', toolName: 'f', output: 'ok' }],
        },
      ],
    },
    'done',
    ['user: hi', 'assistant: f({"a":1}) = ok', '*assistant: done'],
  ],
  'OpenInference attributes': [
    [
      {
        message: {
          role: 'user',
          contents: [{ message_content: { type: 'text', text: 'look' } }],
        },
      },
      {
        message: {
          role: 'assistant',
          content: '',
          tool_calls: [{ tool_call: { id: 'c', function: { name: 'f', arguments: '{}' } } }],
        },
      },
    ],
    null,
    ['user: look', 'assistant: f({})'],
  ],
  'a result of a tool without its call': [
    { messages: [{ role: 'tool', tool_call_id: 'c', content: '42' }] },
    null,
    ['tool: c= 42'],
  ],
  'dictionaries of LangChain': [
    { messages: [{ type: 'human', data: { content: 'hi' } }] },
    { output: [{ type: 'ai', content: 'yo' }] },
    ['user: hi', '*assistant: yo'],
  ],
};

for (const [name, [inputs, outputs, expected]] of Object.entries({ ...CAPTURED, ...DOCUMENTED })) {
  t.test(`reads the form of ${name}`, async (t) => {
    t.same(brief(conversationOf(inputs, outputs)), expected);
  });
}

t.test('pairs results with calls whose ids begin again with each turn', async (t) => {
  const call = (text: string) => ({
    role: 'assistant',
    content: [{ type: 'tool_use', id: 'call_0', name: 'f', input: { text } }],
  });
  const result = (content: string) => ({ role: 'tool', tool_call_id: 'call_0', content });
  const messages = [call('a'), result('of a'), call('b'), result('of b'), result('again')];
  t.same(brief(conversationOf(messages, null)), [
    'assistant: f({"text":"a"}) = of a',
    'assistant: f({"text":"b"}) = of b',
    'tool: call_0= again',
  ]);
  const together = [call('a'), call('b'), result('of a'), result('of b')];
  t.same(brief(conversationOf(together, null)), [
    'assistant: f({"text":"a"}) = of a',
    'assistant: f({"text":"b"}) = of b',
  ]);
  const ask = { role: 'user', content: 'again' };
  t.same(brief(conversationOf([call('a'), ask, call('b'), result('of b')], null)), [
    'assistant: f({"text":"a"})',
    'user: again',
    'assistant: f({"text":"b"}) = of b',
  ]);
  const approval = [call('a'), ask, result('of a')];
  t.same(brief(conversationOf(approval, null)), [
    'assistant: f({"text":"a"}) = of a',
    'user: again',
  ]);
});

t.test('keeps the digits of large integers in the arguments of a call', async (t) => {
  const call = {
    id: 'c',
    type: 'function',
    function: { name: 'f', arguments: '{"id":12345678901234567890}' },
  };
  const [message] = conversationOf({ role: 'assistant', tool_calls: [call] }, null) ?? [];
  t.match(message?.parts, [{ type: 'tool_call', input: { id: 12345678901234567890n } }]);
});

t.test('finds no conversation in other values', async (t) => {
  for (const [inputs, outputs] of [
    ['text', 'text'],
    [null, undefined],
    [{ q: 'hi' }, { answer: 42 }],
    [{ messages: [] }, []],
    [{ messages: ['a', 'b'] }, null],
    [{ role: 'admin', name: 'x' }, { choices: [1] }],
    [[1, 2], { output: 'text' }],
  ]) {
    t.equal(conversationOf(inputs, outputs), undefined, JSON.stringify([inputs, outputs]));
  }
});

t.test('reads objects that cannot become a text', async (t) => {
  const odd = JSON.parse('{"toString":1,"valueOf":1}');
  t.equal(conversationOf({}, { lc: [], kwargs: {}, id: [odd] }), undefined);
});

t.test('reads any JSON without an error', async () => {
  const keys = ['role', 'content', 'parts', 'messages', 'tool_calls', 'type', 'kwargs', 'lc', 'id'];
  const tree = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      fc.constantFrom(null, true, 1, '', 'user', 'text', 'tool_use', 'tool_result', 'reasoning'),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom(...keys), tie('value'), { maxKeys: 4 }),
    ),
  })).value;
  fc.assert(
    fc.property(tree, tree, (inputs, outputs) => {
      const messages = conversationOf(inputs, outputs) ?? [];
      return messages.every(({ role, parts }) => typeof role === 'string' && Array.isArray(parts));
    }),
    { numRuns: 500 },
  );
});

t.test('reads a list of 200,000 messages within a list', async (t) => {
  const message = { role: 'user', content: 'x' };
  const messages = conversationOf([Array.from({ length: 200_000 }, () => message)], undefined);
  t.equal(messages?.length, 200_000);
});

t.test('only images that hold themselves in four formats below 5 MiB are safe', async (t) => {
  for (const type of ['png', 'jpeg', 'gif', 'webp']) {
    t.same(safeImage(`data:image/${type};base64,AAAA`)?.size, 3);
  }
  for (const url of [
    'data:image/svg+xml;base64,PHN2Zy8+',
    'data:text/html;base64,AAAA',
    'data:image/png,raw',
    'data:image/png;base64,AA" onload=x',
    'https://example.com/a.png',
    'javascript:alert(1)',
    '',
  ]) {
    t.equal(safeImage(url), undefined, url);
  }
  const sized = (bytes: number) =>
    `data:image/png;base64,${'A'.repeat(Math.ceil((bytes * 4) / 3))}`;
  t.ok(safeImage(sized(IMAGE_BYTES - 3)));
  t.equal(safeImage(sized(IMAGE_BYTES)), undefined);
});

t.test('a text is JSON if it is an object or a list', async (t) => {
  t.same(jsonOf(' {"a":[1,12345678901234567890]}'), { a: [1, 12345678901234567890n] });
  t.same(jsonOf('[]'), []);
  const others = ['', 'rain, 12 °C', '7', '"a"', 'null', '{broken', '[see] the page', '{} {}'];
  for (const text of others) t.equal(jsonOf(text), undefined, text);
  const long = (length: number): string => `["${'x'.repeat(length - 4)}"]`;
  t.ok(jsonOf(long(1_000_000)));
  t.equal(jsonOf(long(1_000_001)), undefined);
});
