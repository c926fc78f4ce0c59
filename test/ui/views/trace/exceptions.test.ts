import t from 'tap';
import { exceptionsOf } from '../../../../ui/views/trace/exceptions.ts';

function event(message: string, stack?: string): object {
  return {
    name: 'exception',
    attributes: { 'exception.message': message, 'exception.stacktrace': stack },
  };
}

t.test('adds the exceptions of events that the error does not repeat', async (t) => {
  const error = { type: 'TypeError', message: 'a', code: null, stacktrace: null };
  const found = exceptionsOf({ error, events: [event('a', 'at a'), event('b'), event('b')] });
  t.match(found, [
    { type: 'TypeError', message: 'a', stack: 'at a' },
    { type: undefined, message: 'b' },
  ]);
  t.equal(found.length, 2);
  t.same(exceptionsOf({ error: null, events: { name: 'exception' } }), []);
});

t.test('takes the first 20 of 50,000 exceptions', async (t) => {
  const events = Array.from({ length: 50_000 }, (_, index) => event(`message ${index}`));
  const found = exceptionsOf({ error: null, events });
  t.same(
    found.map(({ message }) => message),
    Array.from({ length: 20 }, (_, index) => `message ${index}`),
  );
});
