/** An edge in front of an origin, for all tests of a file. */

import { after, beforeEach } from "node:test";

import { Origin } from "../emulators/origin.js";
import { running } from "./running.js";

/** Both, until the file's last test; `worldOf(origin)` is what each test begins with, where that is always the same. */
export async function inFront(worldOf = null) {
  const origin = await Origin.start();
  after(() => origin.stop());
  const edge = await running("test/edge/under_test.js");
  after(() => edge.stop());
  if (worldOf !== null) {
    beforeEach(async () => {
      origin.reset();
      await edge.tell("world", worldOf(origin));
    });
  }
  return { origin, edge };
}
