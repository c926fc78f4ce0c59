import type { Logger } from '../../../src/component/component.ts';
import type { PostgresClient } from './statement.ts';
import { row } from './statement.ts';

const QUESTION = `
  SELECT current_setting('server_encoding') AS encoding, to_regclass('schema_migrations') IS NULL AS "isNew"`;

/**
 * Other encodings lack most characters, or do not know where one ends: an event that was acknowledged could not be stored. Rejects for
 * a database without tables. One that is in use goes on, because its other events are stored.
 */
export async function checkEncoding(postgres: PostgresClient, logger: Logger): Promise<void> {
  const found = await row<{ encoding: string; isNew: boolean }>(postgres, QUESTION);
  if (found === undefined || found.encoding === 'UTF8') return;
  const { encoding, isNew } = found;
  if (!isNew) {
    const advice =
      "Events with other characters become dead letters; move the data to a database with ENCODING 'UTF8'";
    logger.warn({ encoding, advice }, 'Database cannot store every text');
    return;
  }
  throw new Error(
    `The database has the encoding ${encoding}, which cannot store every text. ` +
      "Create it with ENCODING 'UTF8' TEMPLATE template0.",
  );
}
