import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { until } from '../../helper/until.ts';
import { HOSTILE, onPhone, startUi } from './rig.ts';

t.setTimeout(600_000);

/** A destination whose refusals are final, with markup in its reasons. */
let isRefusing = true;
const destination = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.writeHead(isRefusing ? 400 : 200, { 'content-type': 'text/plain' });
    response.end(isRefusing ? HOSTILE.join(' ') : '');
  });
});
await new Promise<void>((resolve) => destination.listen(0, '127.0.0.1', resolve));
t.teardown(() => destination.close());
const { port } = destination.address() as AddressInfo;

const ui = await startUi(t, {
  daemon: {
    edit(config) {
      const exporters = config['exporters'] as Record<string, unknown>;
      exporters['otlphttp/backup'] = { endpoint: `http://127.0.0.1:${port}` };
      const service = config['service'] as { pipelines: Record<string, unknown> };
      service.pipelines['traces/backup'] = {
        receivers: ['disk_queue'],
        processors: [],
        exporters: ['otlphttp/backup'],
      };
    },
  },
});
const { page } = ui;
const letters = page.getByRole('table', { name: 'Dead letters' });
const node = (name: string) => page.getByRole('button', { name: new RegExp(`^${name} `) });
const event = { operation: 'finish', kind: 'llm', status: 'success', name: 'x' };

t.test('the graph has each component with its live rate', async (t) => {
  await ui.open('/pipelines');
  for (const name of ['native', 'validation', 'quotas', 'disk_queue', 'sqlite']) {
    await node(name).waitFor();
  }
  let sent = 0;
  const sending: Promise<void>[] = [];
  const timer = setInterval(() => {
    sent += 1;
    const items = [{ ...event, id: `o${sent}`, trace_id: `t${sent}` }];
    sending.push(ui.sendEvents(items).catch((error: unknown) => void t.error(error)));
  }, 300);
  await page.getByRole('button', { name: /^validation [1-9]/ }).waitFor();
  await letters.getByRole('row').nth(5).waitFor();
  clearInterval(timer);
  await Promise.all(sending);
  await node('disk_queue').click();
  await page.getByRole('heading', { name: 'disk_queue' }).waitFor();
  await page.waitForURL(/component=connector/);
  await page.getByText('Waiting or in delivery').waitFor();
  await ui.check(t, 'the graph');
  await onPhone(page, () => ui.check(t, 'the graph on a phone'));
});

t.test('dead letters have a reason; one is dropped, the others replayed', async (t) => {
  await ui.open('/pipelines');
  await letters.getByText('destination_refused').first().waitFor();
  t.equal(await page.evaluate('globalThis.hacked'), undefined);
  await ui.check(t, 'dead letters');
  await onPhone(page, () => ui.check(t, 'dead letters on a phone'));
  type Letters = { readonly dead_letters: readonly unknown[] };
  const count = async () => (await ui.admin<Letters>('GET', '/dead-letters')).dead_letters.length;
  type Pipelines = { readonly nodes: readonly { queue: { entries: number } | null }[] };
  const waiting = async (): Promise<number> => {
    const { nodes } = await ui.admin<Pipelines>('GET', '/pipelines');
    return nodes.reduce((sum, { queue }) => sum + (queue?.entries ?? 0), 0);
  };
  // The last batches of the first test are refused, too, before letters are counted.
  await until(async () => (await waiting()) === 0);
  const before = await count();
  t.ok(before >= 4, 'the first test sent more than three batches');
  const row = letters.getByRole('row').nth(1);
  await row.getByRole('button', { name: 'Drop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Drop' }).click();
  await page.getByText('1 dropped.').waitFor();
  t.equal(await count(), before - 1);
  // One row is the head. Until the list is read again, the first letter is the dropped one.
  await until(async () => (await letters.getByRole('row').count()) === before);

  isRefusing = false;
  await row.getByRole('button', { name: 'Replay' }).click();
  await page.getByText('1 back in the queue').waitFor();
  await page.getByRole('button', { name: /^Replay all of/ }).click();
  await page.getByText('No dead letters.').waitFor();
  t.equal(await count(), 0);
});

t.test('a page that is not live keeps its numbers', async (t) => {
  await ui.open('/pipelines');
  await page.getByRole('switch', { name: 'Live' }).click();
  await page.waitForURL(/live=false/);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.waitForTimeout(3_000);
  t.notOk(asked.some((url) => url.endsWith('/api/v1/pipelines')));
});
