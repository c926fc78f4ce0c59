import { capability } from './capability.ts';

/**
 * A component calls it if the whole process must end, because the component can never work again: the service stops
 * in order, and the kind of the error decides on the exit status.
 */
export type ReportFatal = (error: Error) => void;
export const FATAL = capability<ReportFatal>('fatal');
