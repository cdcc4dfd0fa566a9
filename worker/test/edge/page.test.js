/** All that can be bound, bound: the page, its script against the Worker, metrics, logs, Workers Cache. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { ask, howOf, ours } from "../../assets/asking.js";
import { Origin } from "../emulators/origin.js";
import { running } from "./running.js";

const ADMIN = { authorization: "Bearer admin" };
let origin;
let edge;

before(async () => {
  origin = await Origin.start();
  edge = await started({ upstreams: { fake: { url: origin.url } } });
});
after(async () => {
  await edge.stop();
  await origin.stop();
});
beforeEach(() => origin.reset());

function started(settings) {
  return running("src/prediction_worker.js", {
    kvNamespaces: ["PREDICTION_CACHE"],
    r2Buckets: ["PREDICTION_BODIES", "FORETOLD_LOGS"],
    analyticsEngineDatasets: { FORETOLD_METRICS: { dataset: "foretold" } },
    assets: {
      directory: "assets",
      binding: "ASSETS",
      routerConfig: { has_user_worker: true, invoke_user_worker_ahead_of_assets: true },
    },
    bindings: {
      FORETOLD_SECRET: "00".repeat(32),
      FORETOLD_ADMIN_TOKEN: "admin",
      FORETOLD_SETTINGS: JSON.stringify(settings),
    },
  });
}

/** What the page's script does, from outside a browser. */
function asked(question, model = "m") {
  const told = [];
  const send = (path, request) => fetch(new URL(path, edge.url), request);
  return ask({ model, question, key: "" }, { send, nowMs: () => performance.now(), tell: (text) => told.push(text) });
}

test("the page and its files come with the Worker, and nothing of it may be framed or guessed at", async () => {
  const files = [];
  for (const path of ["/", "/foretold.css", "/foretold.js", "/asking.js"]) files.push(await edge.send("GET", path));

  const kinds = files.map(({ headers }) => headers["content-type"].split(";")[0]);
  assert.deepEqual(kinds, ["text/html", "text/css", "text/javascript", "text/javascript"]);
  assert.match(files[0].body, /<title>Foretold at the edge<\/title>/);
  assert.ok(files.every(({ headers }) => headers["x-frame-options"] === "DENY" && headers["cache-control"] === "no-cache"));
});

test("a file that the page names is one that the Worker gives, and it names no other host", async () => {
  const { body } = await edge.send("GET", "/");

  const named = [...body.matchAll(/(?:src|href)="([^"]*)"/g)].map(([, name]) => name).filter((name) => name !== "data:,");
  assert.ok(named.length >= 2);
  for (const name of named) assert.equal((await edge.send("GET", `/${name}`)).status, 200, name);
});

test("asked twice, the page has a miss and then a hit with the same words", async () => {
  const first = await asked("hello");
  const second = await asked("hello");

  assert.deepEqual([first.how, second.how], ["miss", "hit"]);
  assert.equal(first.text, "You said 'hello'. This is call 1.");
  assert.equal(second.text, first.text);
  assert.ok(first.firstMs <= first.allMs);
});

test("the page says what went wrong in the edge's own words", async () => {
  origin.reset([{ status: 404, json: { error: { message: "no such model" } } }]);
  await assert.rejects(asked("gone"), /^Error: no such model$/);
  origin.reset([{ events: ['{"choices":[{"delta":{"content":"half"}}]}', "{}"], cut_after: 1 }]);

  await assert.rejects(asked("cut"), /^Error: The answer broke off: /);
});

test("the page reads the edge's part of a Cache-Status that another cache began", () => {
  const status = 'Foretold; hit; ttl=5, Foretold-Edge; fwd=uri-miss; stored; key="a, b"';

  assert.equal(howOf(ours(status)), "miss");
  assert.deepEqual(
    ["hit; ttl=3", "hit; ttl=-3", "fwd=uri-miss; collapsed", "fwd=bypass; detail=undeclared", "detail=x"].map((said) =>
      howOf(`Foretold-Edge; ${said}`),
    ),
    ["hit", "stale", "collapsed", "pass", "unknown"],
  );
});

test("the self-test finds everything that is bound to work", async () => {
  const { status, body } = await edge.post("/-/selftest", {}, ADMIN);

  assert.equal(status, 200, body);
  const { kv, r2, logs, cache, query, page } = JSON.parse(body).parts;
  assert.deepEqual({ kv, r2, logs, cache, query, page }, {
    kv: "ok", r2: "ok", logs: "ok", cache: "ok", query: "ok", page: "ok",
  });
});

test("where Workers Cache is set and keeps nothing the self-test says so, and answers come all the same", async () => {
  const settings = { upstreams: { fake: { url: origin.url } }, cache: { workers_cache: true } };
  const behind = await started(settings);
  try {
    const tested = await behind.post("/-/selftest", {}, ADMIN);
    const answers = [await behind.chat("hello"), await behind.chat("hello")];

    // The local platform has none on purpose.
    assert.equal(tested.status, 503);
    assert.match(JSON.parse(tested.body).parts.workers_cache, /^read twice, Cf-Cache-Status was none, then none/);
    assert.deepEqual(answers.map(({ isHit }) => isHit), [false, true]);
  } finally {
    await behind.stop();
  }
});
