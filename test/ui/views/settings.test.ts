import { readFileSync } from 'node:fs';
import t from 'tap';
import { rejectedByCode, startOf } from '../../../ui/parts/usage-history.ts';
import { samplesByCode } from '../../../ui/views/rejected/codes.ts';
import {
  actionText,
  browserText,
  copyText,
  detailsText,
} from '../../../ui/views/settings-audit/audit.ts';
import { percent, samplesOf, usedPart } from '../../../ui/views/settings-usage/sums.ts';

const row = {
  ...{ period: '2026-11-20', project_id: 'proj_1', key_id: 'key_1', events: 3, bytes: 0 },
  rejected: { a: 1, b: 5 },
};

t.test('periods are days or hours in UTC', async (t) => {
  t.equal(startOf('2026-11-20'), Date.parse('2026-11-20T00:00:00Z'));
  t.equal(startOf('2026-11-20T21'), Date.parse('2026-11-20T21:00:00Z'));
});

t.test('samples are by project or key, without empty ones', async (t) => {
  const time = startOf(row.period);
  t.strictSame(samplesOf([row], 'events', 'project'), [{ time, group: 'proj_1', value: 3 }]);
  t.strictSame(samplesOf([row], 'rejected', 'key'), [{ time, group: 'key_1', value: 6 }]);
  t.strictSame(samplesOf([row], 'bytes', 'key'), []);
});

t.test('rejections add up by code, the most first', async (t) => {
  t.strictSame(rejectedByCode([row, row]), [
    { code: 'b', count: 10 },
    { code: 'a', count: 2 },
  ]);
  t.equal(samplesByCode([row]).length, 2);
});

t.test('the used part of a limit is at most the whole', async (t) => {
  t.equal(usedPart(5, null), undefined);
  t.equal(usedPart(5, 10), 0.5);
  t.equal(usedPart(10, 10), 1);
  t.equal(usedPart(11, 10), 1);
  t.equal(usedPart(0, 0), 1);
});

t.test('an action is a sentence, an unknown one is itself', async (t) => {
  t.equal(actionText('key.revoke'), 'Revoked a key');
  t.equal(actionText('new.action'), 'new.action');
  t.equal(actionText('constructor'), 'constructor');
});

t.test('each place of a copy in docs/privacy.md has words; an unknown one is itself', async (t) => {
  const page = readFileSync(new URL('../../../docs/privacy.md', import.meta.url), 'utf8');
  const table = page.split('| name | where a copy may be |')[1]?.split('\n\n')[0] ?? '';
  const names = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name = '']) => name);
  t.ok(names.length >= 8);
  for (const name of names) t.not(copyText(name), name);
  t.equal(copyText('toString'), 'toString');
});

t.test('details are a list; an absent value is none', async (t) => {
  t.equal(detailsText({ details: { project_id: 'p', days: null } }), 'project id: p, days: none');
  t.equal(detailsText({ details: {} }), '');
});

t.test('a user agent is a browser and a system, or itself', async (t) => {
  const chrome =
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/151.0.0.0 Safari/537.36';
  t.equal(browserText(chrome), 'Chrome 151, Linux');
  t.equal(browserText(`${chrome} Edg/151.0.0.0`), 'Edge 151, Linux');
  t.equal(
    browserText(
      'Mozilla/5.0 (iPhone; CPU iPhone OS 19 like Mac OS X) Version/19.0 Mobile Safari/604',
    ),
    'Safari 19, iOS',
  );
  t.equal(browserText('curl/8.20'), 'curl/8.20');
  t.equal(browserText('<img src=x>'), '<img src=x>');
  t.equal(browserText(null), 'unknown browser');
  t.equal(browserText(''), 'unknown browser');
});

t.test('a small part of a limit is not 0 %', async (t) => {
  t.strictSame([0, 0.000_1, 0.01, 0.999, 1].map(percent), ['0 %', '< 1 %', '1 %', '99 %', '100 %']);
  t.strictSame([0.07, 0.29, 0.58].map(percent), ['7 %', '29 %', '58 %']);
});
