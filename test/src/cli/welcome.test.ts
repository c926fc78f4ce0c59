import t from 'tap';
import { welcome } from '../../../src/cli/welcome.ts';

const SHOWN = { endpoints: [], managed: [], firsts: [] };
const FACTS = { keys: [], link: undefined, metrics: undefined, version: '1.2.3' };

t.test('a start names the commands of keys if a store has any', async (t) => {
  t.match(welcome({ ...SHOWN, hasStore: true }, FACTS), /Manage keys: tracectl keys list/);
  t.equal(welcome({ ...SHOWN, hasStore: false }, FACTS), 'tracectl 1.2.3 is running.\n\n');
});
