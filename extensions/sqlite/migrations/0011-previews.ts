import type { FileMigration } from '../../../src/sqlite/migrate.ts';

/** The beginning of the inputs and outputs of a trace's root, for lists. Traces of earlier versions have none. */
export const previewColumns: FileMigration = {
  name: '0011-previews',
  apply(db) {
    db.exec(`
      ALTER TABLE traces ADD COLUMN input_preview TEXT;
      ALTER TABLE traces ADD COLUMN output_preview TEXT;
    `);
  },
};
