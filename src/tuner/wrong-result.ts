/** Line 7 of the strata. */

/** A result that is wrong: whatever the layout's times, it cannot win. */
export class WrongResult extends Error {}
