/**
 * The Worker in real workerd on this machine, for `foretold edge dev`: run with the folder that has miniflare.
 *
 * Each line that comes in is a whole description of what is to run; each line that goes out says what came of it.  When
 * nothing more can come in, all ends.
 */

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Door } from "./door.js";

const WORKER = "edge";
const AI = "ai";
const BINDING = "PREDICTION_CACHE";
// The Worker serves its page itself, as it is asked first.
const WORKER_FIRST = { has_user_worker: true, invoke_user_worker_ahead_of_assets: true };

const { Miniflare, NoOpLog } = createRequire(join(process.argv[2], "package.json"))("miniflare");

// What fails is told where it is waited for; besides, the library fails promises that nobody waits for.
process.on("unhandledRejection", () => {});

let miniflare = null;
let door = null;

for await (const line of createInterface({ input: process.stdin })) {
  try {
    say(await run(JSON.parse(line)));
  } catch (error) {
    say({ error: error.message.split("\n")[0], code: error.code ?? null });
  }
}
await door?.close();
await miniflare?.dispose();
process.exit(0);

/** Starts what is described, or changes what runs. */
async function run(described) {
  const options = optionsOf(described);
  if (miniflare === null) miniflare = new Miniflare(options);
  else await miniflare.setOptions(options);
  const url = await miniflare.ready;
  if (door === null) {
    const opened = new Door(described.api, { kv: () => miniflare.getKVNamespace(BINDING, WORKER) });
    await opened.listen(described.api.port);
    door = opened;
  }
  return { url: url.origin, api: door.url };
}

function optionsOf({ worker, keep, port, ai }) {
  return {
    host: "127.0.0.1",
    port,
    cf: false,
    log: new NoOpLog(),
    handleRuntimeStdio,
    kvPersist: join(keep, "kv"),
    r2Persist: join(keep, "r2"),
    cachePersist: join(keep, "cache"),
    workers: [workerOf(worker, ai), ...(ai === null ? [] : [aiOf()])],
  };
}

function workerOf({ root, entry, date, flags, bindings, page }, ai) {
  return {
    name: WORKER,
    rootPath: root,
    modulesRoot: root,
    scriptPath: join(root, entry),
    modules: true,
    modulesRules: [
      { type: "ESModule", include: ["**/*.js", "**/*.mjs"] },
      { type: "CompiledWasm", include: ["**/*.wasm"] },
      { type: "Text", include: ["**/*.txt", "**/*.html"] },
      { type: "Data", include: ["**/*.bin"] },
    ],
    compatibilityDate: date,
    compatibilityFlags: flags,
    bindings,
    kvNamespaces: [BINDING],
    r2Buckets: ["PREDICTION_BODIES"],
    ...(page === null ? {} : { assets: { directory: page, binding: "ASSETS", routerConfig: WORKER_FIRST } }),
    ...(ai === null ? {} : { wrappedBindings: { AI: { scriptName: AI, bindings: { TOLD: ai } } } }),
  };
}

function aiOf() {
  const path = fileURLToPath(new URL("./ai.js", import.meta.url));
  return { name: AI, modules: [{ type: "ESModule", path }] };
}

/** What the Worker logs, and what its runtime says of it. */
function handleRuntimeStdio(out, err) {
  for (const stream of [out, err]) {
    createInterface({ input: stream }).on("line", (text) => process.stderr.write(`${text}\n`));
  }
}

function say(told) {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}
