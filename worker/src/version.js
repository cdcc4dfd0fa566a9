/** What the Worker is, as health and counts tell it: the node's version. */
export const VERSION = "0.1.0";
