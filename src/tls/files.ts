import { readFile } from 'node:fs/promises';
import { authoritiesProblem } from '../schema/certificates.ts';

/** The content of a file of a certificate or key. Rejects with a sentence that names the file. */
export async function readFileOf(file: string | undefined): Promise<Buffer | undefined> {
  return file === undefined ? undefined : readFile(file).catch(unreadable(file));
}

/** The same for authorities: an empty or damaged file rejects, because TLS ignores what it cannot parse. */
export async function readAuthorities(file: string | undefined): Promise<Buffer | undefined> {
  const content = await readFileOf(file);
  const problem = content && authoritiesProblem(content.toString('latin1'));
  if (problem) throw new Error(`The TLS file ${file} cannot be used: ${problem}`);
  return content;
}

export function unreadable(file: string): (cause: unknown) => never {
  return (cause) => {
    const { code } = cause as NodeJS.ErrnoException;
    const error = new Error(`The TLS file ${file} cannot be read: ${code ?? cause}`, { cause });
    throw code === undefined ? error : Object.assign(error, { code });
  };
}
