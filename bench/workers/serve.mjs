/**
 * A Worker in real workerd, until it is ended: node serve.mjs KIND UPSTREAM
 *
 * Of KIND `plain-kv`, `edge` and `edge-kv` miniflare has KV and the Cache API; `plain-map` and `edge-memory` are workerd
 * alone, the latter with a KV that is a service of its own.  Prints where it listens as one JSON line.
 */

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

const [kind, upstream] = process.argv.slice(2);
const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const require = createRequire(`${ROOT}worker/package.json`);
const DATE = "2026-04-01";
const FLAG = "enable_request_signal";
const SECRET = "00".repeat(32);

const edgeSettings = (cache = {}) => JSON.stringify({ upstreams: { mock: { url: `${upstream}/v1` } }, cache });
const edgeBindings = (cache) => ({ FORETOLD_SECRET: SECRET, FORETOLD_ADMIN_TOKEN: "bench", FORETOLD_SETTINGS: edgeSettings(cache) });

const IN_MINIFLARE = {
  "plain-kv": { entry: "bench/workers/plain_kv.js", kv: "CACHE", bindings: { UPSTREAM: upstream } },
  edge: { entry: "worker/src/prediction_worker.js", kv: "PREDICTION_CACHE", bindings: edgeBindings() },
  "edge-kv": { entry: "bench/workers/only_kv.js", kv: "PREDICTION_CACHE", bindings: edgeBindings({ memory_limit: 0 }) },
};

const ALONE = {
  "plain-map": { modules: ["bench/workers/plain_map.js"], bindings: { UPSTREAM: upstream }, hasKv: false },
  "edge-memory": { modules: edgeModules(), bindings: edgeBindings(), hasKv: true },
};

/** The entry first, as workerd wants it. */
function edgeModules() {
  const files = readdirSync(`${ROOT}worker/src`, { recursive: true }).filter((file) => file.endsWith(".js"));
  const paths = files.map((file) => `worker/src/${file}`).sort();
  const entry = "worker/src/prediction_worker.js";
  return [entry, ...paths.filter((path) => path !== entry)];
}

async function inMiniflare({ entry, kv, bindings }) {
  const { Miniflare } = require("miniflare");
  const folder = mkdtempSync(`${tmpdir()}/foretold-bench-edge-`);
  const miniflare = new Miniflare({
    rootPath: ROOT,
    modulesRoot: ROOT,
    scriptPath: ROOT + entry,
    modules: true,
    modulesRules: [{ type: "ESModule", include: ["**/*.js"] }],
    compatibilityDate: DATE,
    compatibilityFlags: [FLAG],
    host: "127.0.0.1",
    port: 0,
    cf: false,
    kvNamespaces: [kv],
    kvPersist: `${folder}/kv`,
    cachePersist: `${folder}/cache`,
    bindings,
  });
  tell(String(await miniflare.ready));
  return async () => {
    await miniflare.dispose();
    rmSync(folder, { recursive: true });
  };
}

async function alone({ modules, bindings, hasKv }) {
  const folder = mkdtempSync(`${tmpdir()}/foretold-bench-edge-`);
  const port = await freePort();
  writeFileSync(`${folder}/config.capnp`, configOf(modules, bindings, { hasKv, port }));
  const workerd = require.resolve("@cloudflare/workerd-linux-64/bin/workerd", { paths: [require.resolve("miniflare")] });
  // workerd reads embedded files by paths relative to its configuration, which absolute ones are not.
  const command = ["serve", "--import-path=/", `${folder}/config.capnp`];
  const child = spawn(workerd, command, { stdio: ["ignore", "ignore", "inherit"] });
  child.on("exit", (code) => process.exit(code ?? 0));
  await answering(port);
  tell(`http://127.0.0.1:${port}`);
  return () => {
    child.removeAllListeners("exit");
    child.kill();
    rmSync(folder, { recursive: true });
  };
}

function configOf(modules, bindings, { hasKv, port }) {
  const embedded = (path) => `(name = ${text(path)}, esModule = embed ${text(ROOT + path)})`;
  const texts = Object.entries(bindings).map(([name, value]) => `(name = ${text(name)}, text = ${text(value)})`);
  const kv = hasKv ? [`(name = "PREDICTION_CACHE", kvNamespace = "kv")`] : [];
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [${modules.map(embedded).join(", ")}],
      compatibilityDate = "${DATE}", compatibilityFlags = ["${FLAG}"],
      bindings = [${[...texts, ...kv].join(", ")}], globalOutbound = "net")),
    (name = "kv", worker = (
      modules = [${embedded("bench/workers/kv_service.js")}], compatibilityDate = "${DATE}")),
    (name = "net", network = (allow = ["private", "public", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]
);
`;
}

function text(value) {
  return JSON.stringify(value);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function answering(port) {
  const endMs = Date.now() + 20_000;
  for (;;) {
    try {
      return await (await fetch(`http://127.0.0.1:${port}/`)).arrayBuffer();
    } catch (error) {
      if (Date.now() > endMs) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function tell(url) {
  console.log(JSON.stringify({ url: url.replace(/\/$/, "") }));
}

const known = { ...IN_MINIFLARE, ...ALONE };
if (!Object.hasOwn(known, kind) || upstream === undefined) {
  console.error(`node serve.mjs KIND UPSTREAM: kinds are ${Object.keys(known).join(", ")}`);
  process.exit(2);
}
const stop = await (kind in IN_MINIFLARE ? inMiniflare(IN_MINIFLARE[kind]) : alone(ALONE[kind]));
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, async () => {
    await stop();
    process.exit(0);
  });
}
