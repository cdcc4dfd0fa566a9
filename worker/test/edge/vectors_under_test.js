/** The contract's functions in workerd: the entry of the test of vectors.  Takes a list of them, gives their outcomes. */

import { outcomeOf } from "../../operations/outcomes.js";

export default {
  async fetch(request) {
    const outcomes = [];
    for (const vector of await request.json()) outcomes.push(await outcomeOf(vector));
    return Response.json(outcomes);
  },
};
