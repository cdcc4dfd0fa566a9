// Runs the modules of an upload in workerd: node run_uploaded.mjs FOLDER, which holds upload.json and the modules.
// Prints its address; ends when its input ends.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Miniflare } from "miniflare";

const folder = process.argv[2];
const upload = JSON.parse(readFileSync(join(folder, "upload.json"), "utf8"));
const names = [upload.main_module, ...upload.modules.filter((name) => name !== upload.main_module)];
const runtime = new Miniflare({
  rootPath: folder,
  modulesRoot: folder,
  modules: names.map((name) => ({ type: "ESModule", path: join(folder, name) })),
  compatibilityDate: upload.compatibility_date,
  compatibilityFlags: upload.compatibility_flags,
  bindings: upload.texts,
  kvNamespaces: upload.kv,
  r2Buckets: upload.r2,
  ratelimits: upload.ratelimits,
});
console.log((await runtime.ready).href);
process.stdin.resume().on("end", async () => {
  await runtime.dispose();
  process.exit(0);
});
