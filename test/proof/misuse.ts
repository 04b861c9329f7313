/** A proof was asked for in a way that can't be: the message, one line, says how it can. */
export class Misuse extends Error {}
