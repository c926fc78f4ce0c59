import { z } from 'zod';
import { byteSize } from './fields.ts';

/** The bounds of the text of a field that is searched. */
const SEARCHED_BYTES = { min: 256, max: 65_536 } as const;

/** Text search of a store in payloads. */
export const payloadSearch = z
  .strictObject({
    payloads: byteSize()
      .refine((bytes) => bytes >= SEARCHED_BYTES.min && bytes <= SEARCHED_BYTES.max, {
        error: 'expected 256 bytes to 64KiB',
      })
      .optional()
      .describe(
        'Words and phrases of a query also find the text inside inputs and outputs: its first bytes in UTF-8, of each of the two. Turning it on or changing it indexes what is stored in the background; turning it off removes the index. Default: names, models, messages of errors and custom fields only.',
      ),
  })
  .prefault({})
  .describe('Text search in payloads.');
