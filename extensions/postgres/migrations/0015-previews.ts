/** The beginning of the inputs and outputs of a trace's root, for lists. Traces of earlier versions have none. */
export const previews = {
  name: '0015-previews',
  sql: 'ALTER TABLE traces ADD COLUMN input_preview text, ADD COLUMN output_preview text',
};
