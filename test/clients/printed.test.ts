import t from 'tap';
import { NPM_PRINTED, runtimeOf } from './cases.ts';
import { npmClients } from './install.ts';
import { Lab } from './lab.ts';
import { STALE_STORE } from './printed-cases.ts';

// The clients may have to be installed.
t.setTimeout(600_000);

t.test(
  'clients in JavaScript print the setting to change, and the states of stale runs',
  async (t) => {
    await npmClients();
    const lab = await Lab.start(STALE_STORE);
    t.teardown(() => lab.close());
    for (const each of NPM_PRINTED) {
      const output = await lab.output(each, await runtimeOf(each));
      for (const line of each.prints) t.match(output, line, each.name);
    }
  },
);
