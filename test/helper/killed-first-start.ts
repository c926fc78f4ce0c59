import { loadOrFail } from '../../src/cli/configuration.ts';
import { firstTokens } from '../../src/cli/first-key.ts';
import { onlyExtension } from '../../src/cli/store-command.ts';
import { offer } from '../../src/component/capability.ts';
import { FIRST_TOKENS } from '../../src/component/first-tokens.ts';
import { createService } from '../../src/engine/service.ts';

/**
 * Opens a new store in the working directory as `tracectl run` does, and is killed before or after the store is durable. No user has seen
 * its key then.
 *
 *   killed-first-start.ts before|after CONFIG [--set=…]
 */
const [moment, file = '', ...settings] = process.argv.slice(2);
const terminal = {
  cwd: process.cwd(),
  env: process.env,
  out() {},
  err: (text: string) => void process.stderr.write(`${text}\n`),
};
const options = { config: [file], set: settings.map((one) => one.replace('--set=', '')) };
const config = await loadOrFail(options, terminal);
const tokens = firstTokens({ config, options, terminal });

function kill(): void {
  process.kill(process.pid, 'SIGKILL');
}

const service = await createService({
  config: onlyExtension(config, 'sqlite'),
  offers: [
    offer(FIRST_TOKENS, {
      ...tokens,
      async keep(token) {
        await tokens.keep(token);
        if (moment === 'before') kill();
      },
    }),
  ],
});
await service.start();
kill();
