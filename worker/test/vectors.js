/** Every vector of contract/vectors/. */

import { readFileSync, readdirSync } from "node:fs";

const FOLDER = new URL("../../contract/vectors/", import.meta.url);

export const VECTORS = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .sort()
  .flatMap((file) => JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")));
