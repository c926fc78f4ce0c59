import t from 'tap';
import { CommandError, EXIT, exitStatusOf } from '../../../src/cli/exit-status.ts';
import { ControlError } from '../../../src/control/protocol.ts';
import { NewerDataError, StoreError } from '../../../src/model/errors.ts';

t.test('a store of a newer version has an exit status of its own', async (t) => {
  const newer = new NewerDataError('written by a newer version');
  t.equal(exitStatusOf(newer), 65);
  const behind = new Error('cannot start', { cause: new Error('cannot open', { cause: newer }) });
  t.equal(exitStatusOf(behind), 65, 'behind the error of a component');
});

t.test(
  'a value that the daemon or the store refuses is a mistake of the command line',
  async (t) => {
    t.equal(exitStatusOf(new ControlError('invalid_request', 'by must be one of day, hour')), 64);
    t.equal(exitStatusOf(new StoreError('invalid_cursor', 'not from this listing')), 64);
    t.equal(exitStatusOf(new ControlError('unknown_project', 'no project matches')), 1);
  },
);

t.test('a command decides about its status; any other error is a failure', async (t) => {
  t.equal(exitStatusOf(new CommandError(EXIT.usage, 'no such option')), 64);
  t.equal(exitStatusOf(new Error('it fails', { cause: new Error('disk') })), 1);
  t.equal(exitStatusOf('text'), 1);
});
