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
