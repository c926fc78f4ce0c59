/** Whether the unit before an index is the first half of a pair of surrogates, so that a cut at the index divides the pair. */
export function dividesPair(text: string, at: number): boolean {
  return (text.charCodeAt(at - 1) & 0xfc00) === 0xd800;
}
