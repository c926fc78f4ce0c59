import t from 'tap';
import { CommandError, EXIT, exitStatusOf } from '../../../src/cli/exit-status.ts';
import { NewerDataError } from '../../../src/model/errors.ts';

t.test('a store of a newer version has an exit status of its own', async (t) => {
  const newer = new NewerDataError('written by a newer version');
  t.equal(exitStatusOf(newer), 65);
  const behind = new Error('cannot start', { cause: new Error('cannot open', { cause: newer }) });
  t.equal(exitStatusOf(behind), 65, 'behind the error of a component');
});

t.test('a command decides about its status; any other error is a failure', async (t) => {
  t.equal(exitStatusOf(new CommandError(EXIT.usage, 'no such option')), 64);
  t.equal(exitStatusOf(new Error('it fails', { cause: new Error('disk') })), 1);
  t.equal(exitStatusOf('text'), 1);
});
