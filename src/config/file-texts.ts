import { type ReadFile, readBounded } from './read.ts';

/** What a configuration was read from: texts by the path of their file. */
export type FileTexts = Readonly<Record<string, string>>;

/** Reads files and keeps their texts, so that others see the same whatever becomes of the files. */
export function keepingReader(): { readonly read: ReadFile; readonly texts: FileTexts } {
  const texts: Record<string, string> = {};
  return {
    texts,
    read(path) {
      const text = readBounded(path);
      texts[path] = text;
      return text;
    },
  };
}

/** Gives what was kept. */
export function readerOf(texts: FileTexts): ReadFile {
  return (path) => texts[path] ?? readBounded(path);
}
