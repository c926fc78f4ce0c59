import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { errorOfText } from '../../../src/model/error-text.ts';

const TRACE = 'Traceback (most recent call last):\n\n  File "a.py", line 1, in <module>\n';

t.test('takes the error of Python apart, with and without an empty line', async (t) => {
  const stacktrace = `${TRACE}ValueError: boom tool x`;
  const parts = { message: 'boom tool x', type: 'ValueError', stacktrace };
  t.same(errorOfText(`ValueError('boom tool x')\n\n${stacktrace}`), parts, 'LangSmith');
  t.same(errorOfText(`ValueError('boom tool x')${stacktrace}`), parts, 'LangChain');
  t.same(errorOfText(stacktrace), parts, 'a traceback alone');
  t.match(errorOfText(`no repr${stacktrace}`), { message: 'no repr', type: null, stacktrace });
  t.match(errorOfText(`KeyError: 'x'\n${stacktrace}`), { message: "'x'", type: 'KeyError' });
  t.match(errorOfText(`Custom('x')\n${stacktrace}`), { message: 'x', type: 'Custom' });
  t.match(errorOfText(`${TRACE}  broken`), { message: '  broken', type: null });
});

t.test(
  'takes the error of an async function of Python apart, which has no traceback',
  async (t) => {
    const of = (head: string) => errorOfText(`${head}\n\nNoneType: None\n`);
    t.same(of("RuntimeError('tool broke')"), {
      ...{ message: 'tool broke', type: 'RuntimeError', stacktrace: null },
    });
    t.same(of('CancelledError()'), { message: '', type: 'CancelledError', stacktrace: null });
    t.match(of("Custom('x')"), { message: 'x', type: 'Custom' });
    t.match(of('KeyError: x'), { message: 'x', type: 'KeyError' });
    t.match(of('no repr'), { message: 'no repr', type: null });
    for (const text of [
      'NoneType: None',
      'a NoneType: None',
      '\n\nNoneType: None',
      'x\n\nNoneType: None of it',
    ]) {
      t.match(errorOfText(text), { message: text, type: null });
    }
  },
);

t.test('takes a traceback in the message of an error of Python as a part of it', async (t) => {
  const inner = 'code failed: Traceback (most recent call last):\\n  File "b.py"\\nKeyError: 1';
  const message = inner.replaceAll('\\n', '\n');
  const stacktrace = `${TRACE}RuntimeError: ${message}`;
  const parts = { message, type: 'RuntimeError' };
  for (const between of ['\n\n', '']) {
    const text = `RuntimeError('${inner}')${between}${stacktrace}`;
    t.same(errorOfText(text), { ...parts, stacktrace });
  }
  t.same(errorOfText(`RuntimeError('${inner}')`), { ...parts, stacktrace: null });
});

t.test('takes the arguments of an error as Python prints them', async (t) => {
  const messageOf = (text: string) => errorOfText(text).message;
  t.equal(messageOf('ValueError("it\'s")'), "it's");
  t.equal(messageOf("ValueError('a\\nb\\'c\\\\')"), "a\nb'c\\");
  t.equal(messageOf("a.b.HTTPError('x', 5)"), "'x', 5");
  t.equal(messageOf("ValueError('a', 'b')"), "'a', 'b'");
  t.equal(messageOf("ValueError('broken\\')"), "'broken\\'");
  t.equal(messageOf('ValueError()'), '');
  t.equal(errorOfText("a.b.HTTPError('x', 5)").type, 'a.b.HTTPError');
});

t.test('takes the group of errors of Python apart', async (t) => {
  const stack = `+ Exception Group ${TRACE}  | ExceptionGroup: two`;
  t.same(errorOfText(`ExceptionGroup('two', [ValueError('a')])\n\n  ${stack}`), {
    message: "'two', [ValueError('a')]",
    type: 'ExceptionGroup',
    stacktrace: stack,
  });
});

t.test('takes the error of JavaScript apart, with and without a stack', async (t) => {
  t.same(errorOfText('TypeError: boom: x'), {
    ...{ message: 'boom: x', type: 'TypeError', stacktrace: null },
  });
  t.same(errorOfText('Error: js broke'), { message: 'js broke', type: 'Error', stacktrace: null });
  const stack = 'TypeError: boom\n\nmore\n    at f (a.mjs:1:2)\n    at g (b.mjs:3:4)';
  const parts = { message: 'boom\n\nmore', type: 'TypeError', stacktrace: stack };
  t.same(errorOfText(`boom\n\nmore\n\n${stack}`), parts, 'LangChain repeats the message');
  t.same(errorOfText(stack), parts);
  const hint = 'boom\n\nSee https://example.com/\n';
  const hinted = `Error: ${hint}\n    at f (a.mjs:1:2)`;
  t.same(
    errorOfText(`${hint}\n\n${hinted}`),
    { message: hint.trimEnd(), type: 'Error', stacktrace: hinted },
    'with a line break at the end of the message',
  );
});

t.test('leaves any other text as the message', async (t) => {
  for (const text of ['boom', 'Note: boom', 'call(x)', 'x\n\ny', 'a\n  at b', 'Call me at noon']) {
    t.same(errorOfText(text), { message: text, type: null, stacktrace: null }, text);
  }
});

t.test('a long text costs a time in proportion to its length', async (t) => {
  const hostile = [
    `${'('.repeat(1e6)}${TRACE}`,
    `${'a\n\n'.repeat(3e5)}`,
    `E('${'\\'.repeat(1e6)}`,
  ];
  const begin = performance.now();
  for (const text of hostile) errorOfText(text);
  t.ok(performance.now() - begin < 1000);
});

/** The rule for errors of JavaScript, in a form whose time is the square of the length. */
function bySquare(text: string): ReturnType<typeof errorOfText> {
  const named = (part: string) => {
    const [, type = '', message = ''] = /^([A-Za-z_$][\w$.]{0,255}): ([\s\S]*)$/.exec(part) ?? [];
    return /(?:Error|Exception)$/.test(type) ? { message, type, stacktrace: null } : undefined;
  };
  const first = /\n\s+at /.exec(text);
  if (first === null) return named(text) ?? { message: text, type: null, stacktrace: null };
  const head = text.slice(0, first.index);
  for (let at = head.indexOf('\n\n'); at !== -1; at = head.indexOf('\n\n', at + 1)) {
    const found = named(head.slice(at + 2));
    if (found?.message.trimEnd() === head.slice(0, at).trimEnd()) {
      return { ...found, stacktrace: text.slice(at + 2) };
    }
  }
  const found = named(head);
  if (found !== undefined) return { ...found, stacktrace: text };
  return named(text) ?? { message: text, type: null, stacktrace: null };
}

t.test('finds the stack of JavaScript in any text', async () => {
  const parts = ['\n', '\n\n', ' ', '\t', 'at ', 'at', 'x', 'Error: ', 'TypeError: x', '\n  at f'];
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...parts), { maxLength: 12 }), (list) => {
      const text = list.join('');
      assert.deepEqual(errorOfText(text), bySquare(text));
    }),
    { numRuns: 2000 },
  );
});

t.test('searches no long text by an expression that may begin at each character', async (t) => {
  const { exec } = RegExp.prototype;
  const searching: RegExp[] = [];
  RegExp.prototype.exec = function (text) {
    if (!this.sticky && !this.source.startsWith('^') && text.length > 256) searching.push(this);
    return exec.call(this, text);
  };
  try {
    const text = '\n'.repeat(32_768);
    t.match(errorOfText(text), { message: text, type: null, stacktrace: null });
  } finally {
    RegExp.prototype.exec = exec;
  }
  t.same(searching, []);
});
