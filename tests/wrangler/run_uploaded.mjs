// Runs the modules of an upload in workerd: node run_uploaded.mjs FOLDER, which holds upload.json and the modules.
// Its KV namespaces are those of the stand-in for Cloudflare's API, asked in workerd's own words over HTTP.
// Prints its address; ends when its input ends.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { Miniflare, PLUGINS, Response } from "miniflare";

const folder = process.argv[2];
const upload = JSON.parse(readFileSync(join(folder, "upload.json"), "utf8"));

PLUGINS.kv.getBindings = ({ kvNamespaces = {} }) =>
  Object.entries(kvNamespaces).map(([name, id]) => ({ name, kvNamespace: { name: `kv:${id}` } }));
PLUGINS.kv.getServices = ({ options: { kvNamespaces = {} } }) =>
  Object.values(kvNamespaces).map((id) => ({
    name: `kv:${id}`,
    external: { address: upload.kv_address, http: { injectRequestHeaders: [{ name: "x-kv-namespace", value: id }] } },
  }));

function file(request) {
  const found = upload.files[new URL(request.url).pathname];
  if (found === undefined) return new Response("", { status: 404 });
  return new Response(readFileSync(found[1]), { headers: { "content-type": found[0] } });
}

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
  analyticsEngineDatasets: upload.datasets,
  serviceBindings: Object.fromEntries(upload.assets.map((name) => [name, file])),
  cf: false,
});
console.log((await runtime.ready).href);
process.stdin.resume().on("end", async () => {
  await runtime.dispose();
  process.exit(0);
});
