/** Makes the file of a SQLite store with all tables and no rows. */
export async function makeMigratedStore(file: string): Promise<void> {
  // Loaded by the few processes that make it.
  const { openConnection } = await import('../../src/sqlite/opening.ts');
  const operations = await import('../../extensions/sqlite/operations.ts');
  const { connection } = openConnection(operations, {
    ...{ file, filled: `${file}.filled`, access: 'write' },
    ...{ reserveBytes: 0, maxPages: undefined },
  });
  connection.db.close();
}
