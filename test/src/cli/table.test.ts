import t from 'tap';
import { table } from '../../../src/cli/table.ts';

t.test('a table replaces control characters in cells', async (t) => {
  const shown = table(['ID'], [['a\u001b[2Jb\n\u009bc']]);
  t.equal(shown, 'ID\na\ufffd[2Jb\ufffd\ufffdc');
  t.equal(table(['ID'], [['\u202egnp.exe']]), 'ID\n\ufffdgnp.exe');
});

t.test('a table aligns wide characters, and one long cell moves no other line', async (t) => {
  const long = 'x'.repeat(100);
  const rows = [
    ['サーバー', '1'],
    ['ｱｲ', '22'],
    [long, '3'],
  ];
  t.equal(
    table(['ID', 'N'], rows, ['N']),
    [
      `ID${' '.repeat(62)}   N`,
      `サーバー${' '.repeat(56)}   1`,
      `ｱｲ${' '.repeat(62)}  22`,
      `${long}   3`,
    ].join('\n'),
  );
});
