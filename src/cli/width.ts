import { escapeControls } from '../telemetry/control-characters.ts';

const clusters = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
/**
 * Characters that terminals show in two columns: the wide and fullwidth ones of Unicode's EastAsianWidth.txt, and emoji. Last a halfwidth
 * letter with its sound mark, which is one cluster.
 */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f|.[\uff9e\uff9f]/u;
/** Marks without a base, and characters that are not shown. */
const NO_WIDTH = /^[\p{Mark}\p{Cf}]+$/u;
const PLAIN = /^[\x20-\x7e]*$/;

/** The columns that a terminal shows the text in. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of clusters.segment(text)) width += clusterWidth(segment);
  return width;
}

/** The text on one line, in exactly this number of columns: cut with an ellipsis, or padded. */
export function fit(text: string, columns: number, align: 'left' | 'right' = 'left'): string {
  const shown = cutTo(oneLine(text), columns);
  const padding = ' '.repeat(Math.max(0, columns - widthOf(shown)));
  return align === 'left' ? shown + padding : padding + shown;
}

/** Control characters are escaped: names and messages are text of clients. */
export function oneLine(text: string): string {
  return escapeControls(text);
}

/** The text in at most this number of columns. */
export function cutTo(text: string, columns: number): string {
  if (PLAIN.test(text)) {
    return text.length <= columns
      ? text
      : `${text.slice(0, Math.max(0, columns - 1))}…`.slice(0, columns);
  }
  if (widthOf(text) <= columns) return text;
  let shown = '';
  let width = 1;
  for (const { segment } of clusters.segment(text)) {
    width += clusterWidth(segment);
    if (width > columns) break;
    shown += segment;
  }
  return columns === 0 ? '' : `${shown}…`;
}

function clusterWidth(cluster: string): number {
  if (NO_WIDTH.test(cluster)) return 0;
  return WIDE.test(cluster) ? 2 : 1;
}
