import { type ReadFile, readBounded } from './read.ts';

/** The texts of the files that a configuration was read from, by path. */
export type FileTexts = Readonly<Record<string, string>>;

/** Reads files and keeps their texts, so that other processes see the same even if the files change. */
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

/** Reads the kept texts. */
export function readerOf(texts: FileTexts): ReadFile {
  return (path) => texts[path] ?? readBounded(path);
}
