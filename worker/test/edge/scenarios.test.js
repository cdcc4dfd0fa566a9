/** This side keeps every scenario of contract/scenarios/ that is for the edge; tests/integration/ has the node's. */

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { inFront } from "./in_front.js";
import { textOf, until } from "./running.js";

const FOLDER = new URL("../../../contract/scenarios/", import.meta.url);

const all = readdirSync(FOLDER)
  .filter((file) => file.endsWith(".json"))
  .sort()
  .flatMap((file) => JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")));
const ours = all.filter((scenario) => (scenario.on ?? ["node", "edge"]).includes("edge"));
const ran = new Set();
const { origin, edge } = await inFront();

for (const scenario of ours) {
  test(`${scenario.rule}: ${scenario.name}`, async () => {
    ran.add(scenario.name);
    origin.reset(scenario.origin ?? []);
    const settings = { upstreams: { fake: { url: "{origin}" } }, ...scenario.settings };
    const text = JSON.stringify(settings).replaceAll("{origin}", origin.url);
    await edge.tell("world", { settings: JSON.parse(text), ai: false });
    const answers = [];

    for (const step of scenario.steps) {
      if (step.later_s) await edge.tell("advance", { seconds: step.later_s });
      if (step.calls) {
        await origin.called(step.calls);
        await until(async () => (await edge.tell("flights")) === 0);
      }
      if (!step.send) continue;
      const { method, path, headers = {} } = step.send;
      const answer = await edge.send(method, path, { body: bodyOf(step.send), headers });
      answers.push(answer);
      check(step.back, answer, answers);
    }
  });
}

test("every scenario ran", () => {
  assert.ok(all.length >= 50);
  assert.deepStrictEqual([...ran].sort(), ours.map(({ name }) => name).sort());
});

function bodyOf({ json, body, repeated }) {
  if (json !== undefined) return JSON.stringify(json);
  return repeated === undefined ? (body ?? null) : repeated[0].repeat(repeated[1]);
}

const CHECKS = {
  status: (wanted, answer) => assert.equal(answer.status, wanted, answer.body),
  cache: (wanted, answer) => assert.equal(withoutKey(answer.cacheStatus), `Foretold-Edge; ${wanted}`),
  cache_before: (wanted, answer) => assert.ok(answer.headers["cache-status"].startsWith(`${wanted}, `)),
  no_key: (_, answer) => assert.ok(!answer.cacheStatus.includes("key=")),
  kind: (wanted, answer) => assert.equal(answer.headers["content-type"], wanted),
  text: (wanted, answer) => assert.equal(textOf(answer), wanted),
  json: (wanted, answer) => assert.deepStrictEqual(JSON.parse(answer.body), wanted),
  body: (wanted, answer) => assert.equal(answer.body, wanted),
  code: (wanted, answer) => assert.equal((JSON.parse(answer.body).error ?? JSON.parse(answer.body)).code, wanted),
  has: (wanted, answer) => assert.ok(answer.body.includes(wanted), answer.body),
  lacks: (wanted, answer) => assert.ok(!answer.body.includes(wanted), answer.body),
  headers: (wanted, answer) => assertFields(answer.headers, wanted),
  same_body_as: (wanted, answer, answers) => assert.equal(answer.body, answers[wanted].body),
  calls: (wanted) => assert.equal(origin.calls.length, wanted),
  broken: (_, answer) => assert.ok(answer.isCut || answer.status >= 500),
  origin_got: (wanted) => assert.ok(origin.calls.at(-1).body.replaceAll(" ", "").includes(wanted)),
  origin_lacks: (wanted) => assert.ok(!origin.calls.at(-1).body.includes(wanted)),
  origin_target: (wanted) => assert.equal(origin.calls.at(-1).target, wanted),
  origin_header: (wanted) => assertFields(origin.calls.at(-1).headers, wanted),
};

function check(back, answer, answers) {
  for (const [name, wanted] of Object.entries(back)) CHECKS[name](wanted, answer, answers);
}

function assertFields(fields, wanted) {
  for (const [name, value] of Object.entries(wanted)) assert.equal(fields[name] ?? null, value, name);
}

function withoutKey(status) {
  return status.replace(/; key="[0-9a-f]{64}"/, "");
}
