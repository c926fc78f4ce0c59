import t from 'tap';
import { observeEach } from '../../../src/model/formats.ts';
import { wellFormed, withWellFormedTexts } from '../../../src/model/well-formed.ts';
import { anObservation, nativeBatch, nativeEvent } from '../../helper/batches.ts';

t.test('an unpaired surrogate becomes its JSON escape', async (t) => {
  t.equal(wellFormed('\ud800'), '\\ud800');
  t.equal(wellFormed('a\udfffb\udc00'), 'a\\udfffb\\udc00');
  t.equal(wellFormed('\ude00\ud83d'), '\\ude00\\ud83d');
  t.equal(
    wellFormed('\ud83d\ude00 é \ufffd \0'),
    '\ud83d\ude00 é \ufffd \0',
    'well-formed text stays',
  );
});

t.test('all narrow texts of an observation are well-formed', async (t) => {
  const half = '\ud83d';
  const sent = anObservation({
    ...{ parentId: half, name: half, model: half, sessionId: half, userId: half },
    error: { message: half, type: half, stacktrace: half },
    customFields: Object.assign(Object.create(null), { [half]: half, __proto__x: 'x' }),
    customFieldsText: '{}',
    ...{ external: { [half]: half, ['__proto__']: half }, usage: { [half]: 1 } },
    details: { tags: ['a', half], inputBytes: 3, ignored: [{ path: half, reason: half }] },
  });
  const found = withWellFormedTexts(sent);
  const text = '\\ud83d';
  t.match(found, {
    ...{ parentId: text, name: text, model: text, sessionId: text, userId: text },
    error: { message: text, type: text, stacktrace: text },
    ...{ customFields: { [text]: text, __proto__x: 'x' }, usage: { [text]: 1 } },
    details: { tags: ['a', text], inputBytes: 3, ignored: [{ path: text, reason: text }] },
  });
  t.same(Object.entries(found.external ?? {}), [
    [text, text],
    ['__proto__', text],
  ]);
  t.equal(found.customFieldsText, undefined);
  t.notOk(JSON.stringify(found).includes('"\\ud83d'), 'no text has half a character');
  const sound = anObservation({ name: '\ud83d\ude00' });
  t.equal(withWellFormedTexts(sound), sound, 'a sound observation is not copied');
});

t.test('observations of a batch have well-formed texts', async (t) => {
  const batch = nativeBatch([nativeEvent({ name: 'a\ud83d', inputs: 'in\ud83d' })]);
  const [observation] = observeEach(batch).observations;
  t.equal(observation?.name, 'a\\ud83d');
  t.notOk(JSON.stringify(observation?.details).includes('"in\\ud83d"'));
});
