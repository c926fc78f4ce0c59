import t, { type Test } from 'tap';
import { HOSTILE, startUi } from './rig.ts';

t.setTimeout(600_000);

/**
 * Stored cross-site scripting: 40 texts in every field that a client or an administrator sets, on every page. Markup and
 * handlers in every place that a template could put a text, encodings of them, and texts that break a layout.
 */
const MORE = [
  '<svg><animate onbegin=globalThis.hacked=1 attributeName=x dur=1s>',
  '<iframe srcdoc="<script>parent.hacked=1</script>">',
  '<a href="javascript:globalThis.hacked=1">click</a>',
  '<details open ontoggle=globalThis.hacked=1>',
  '<style>@import "http://example.com/x.css";</style>',
  '<link rel=stylesheet href=http://example.com/x.css>',
  '<meta http-equiv=refresh content="0;url=http://example.com/">',
  '<form action=http://example.com/><input name=x autofocus onfocus=globalThis.hacked=1>',
  '<math><mtext></form><form><mglyph><style></math><img src onerror=globalThis.hacked=1>',
  '<noscript><p title="</noscript><img src=x onerror=globalThis.hacked=1>">',
  '<template><script>globalThis.hacked=1</script></template>',
  '<!--><img src=x onerror=globalThis.hacked=1>-->',
  '<![CDATA[<script>globalThis.hacked=1</script>]]>',
  '&lt;script&gt;globalThis.hacked=1&lt;/script&gt;',
  '&#60;img src=x onerror=globalThis.hacked=1&#62;',
  '\\u003cscript\\u003eglobalThis.hacked=1\\u003c/script\\u003e',
  '%3Cscript%3EglobalThis.hacked%3D1%3C%2Fscript%3E',
  '" onmouseover="globalThis.hacked=1" x="',
  "' onfocus='globalThis.hacked=1' autofocus='",
  '`${globalThis.hacked=1}`',
  '");globalThis.hacked=1;//',
  '</script><script>globalThis.hacked=1</script>',
  'data:text/html,<script>globalThis.hacked=1</script>',
  '__proto__',
  'constructor',
  '../../../etc/passwd',
  '{{7*7}} #{7*7} <%= 7*7 %> ${{7*7}}',
  'a\u0300'.repeat(60),
];
const ALL = [...HOSTILE, ...MORE];

const ui = await startUi(t);
const { page } = ui;
const { projects } = await ui.admin<{ projects: { id: string }[] }>('GET', '/projects');
const project = projects[0]?.id ?? '';

/** A trace with the text in every field of its observation. */
function eventOf(text: string, index: number): object {
  const start = Date.now() - index * 1_000;
  return {
    ...{ observation_id: `o${index}`, trace_id: `t${index}`, operation: 'error', kind: 'tool' },
    ...{ status: 'error', name: text, model: text },
    start_time: new Date(start - 500).toISOString(),
    end_time: new Date(start).toISOString(),
    error: { type: text, message: text, stacktrace: `${text}\n${text}` },
    inputs: {
      messages: [
        { role: 'user', content: text },
        { role: text, content: [text] },
      ],
    },
    outputs: { [text]: text, nested: { [text]: [text] } },
    events: [{ name: text, attributes: { [text]: text } }],
    metadata: {
      ...{ user_id: text, session_id: text, environment: text, release: text },
      ...{ tags: [text], tool_name: text, provider: text, prompt_name: text, [text]: text },
    },
    custom_fields: { team: text },
  };
}

async function isUnharmed(t: Test, name: string): Promise<void> {
  t.equal(await page.evaluate('globalThis.hacked'), undefined, `${name}: nothing runs`);
  t.strictSame(ui.errors, [], `${name}: the console is empty, the policy was not violated`);
  t.strictSame(ui.foreign, [], `${name}: no request leaves the origin`);
  t.equal(new URL(page.url()).origin, ui.daemon.adminBase, `${name}: the page is still there`);
  const isWide = await page.evaluate<boolean>(
    'document.documentElement.scrollWidth > document.documentElement.clientWidth',
  );
  t.notOk(isWide, `${name}: the page does not scroll sideways`);
}

await ui.sendEvents(ALL.map(eventOf));
await ui.admin('GET', `/projects/${project}/traces/t${ALL.length - 1}?wait=30s`);

t.test('there are 40 texts', async (t) => {
  t.equal(new Set(ALL).size, 40);
});

t.test('lists show 40 hostile texts in every column', async (t) => {
  const columns = 'start,name,status,input,output,model,user,session,environment,tags,source,id';
  for (const path of [`/traces?columns=${columns}`, '/sessions', '/users', '/dashboard']) {
    await ui.open(path);
    await page.getByText('<iframe srcdoc').first().waitFor();
    await isUnharmed(t, path);
  }
});

t.test('the page of a trace, a session and a user show each of them', async (t) => {
  for (const [index, text] of ALL.entries()) {
    await ui.open(`/traces/t${index}`);
    for (const tab of ['JSON', 'Attributes', 'Raw event', 'Messages']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tabpanel').waitFor();
    }
    await isUnharmed(t, `trace ${index}`);
    await ui.open(`/sessions/${encodeURIComponent(text)}`);
    await page.getByText('End of the session').waitFor();
    await isUnharmed(t, `session ${index}`);
    await ui.open(`/users/${encodeURIComponent(text)}`);
    await page.getByRole('table', { name: 'Newest traces' }).waitFor();
    await isUnharmed(t, `user ${index}`);
  }
});

t.test('settings, rejections and the search box show them', async (t) => {
  for (const name of ALL) {
    if (!name.includes('\u001b')) await ui.admin('POST', `/projects/${project}/keys`, { name });
  }
  for (const text of ALL) {
    const event = { id: text, trace_id: text, operation: text, kind: text, status: text };
    await ui.daemon.call({
      ...{ method: 'POST', path: '/api/v1/observations/batch' },
      headers: { 'content-type': 'application/json', 'user-agent': encodeURIComponent(text) },
      body: JSON.stringify({ events: [event] }),
    });
  }
  for (const path of ['/settings/keys', '/settings/usage', '/settings/audit', '/rejected']) {
    await ui.open(path);
    await page.getByRole('main').getByRole('heading').first().waitFor();
    await isUnharmed(t, path);
  }
  for (const text of ALL) {
    ui.provoked.add(400);
    await page.goto(`${ui.daemon.adminBase}/traces?q=${encodeURIComponent(text)}`);
    await page.getByRole('searchbox').waitFor();
    t.equal(await page.evaluate('globalThis.hacked'), undefined);
  }
});
