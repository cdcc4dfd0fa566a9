/** Whether what is bound here works as it must, tried for real: asked for after each deploy. */

import { hex, textOf, utf8 } from "../contract/bytes.js";
import { controls } from "../contract/controls.js";
import { recordName } from "../contract/key.js";
import { within } from "../deadlines.js";
import { Predict } from "../dialects/predict.js";
import { StoreError } from "../errors.js";
import { collected } from "../flight.js";
import { Chain } from "../origins/chain.js";
import { WholeAnswer } from "../origins/whole.js";
import { outcome as begun } from "../outcome.js";
import { Route } from "../routes.js";
import { INNER } from "../stores/front.js";

const TRIAL_MS = 5000;
// A day: nothing of it is left behind, even if the trial is cut.
const KEEP_S = 86_400;
const SELFTEST_S = 60;

/** Each part as `ok`, `off` (not bound or not set) or what went wrong; `model`, if given, is asked one token. */
export async function selftest({ kv, bucket, caches, origin, ai, logs, front, assets }, { model, node, later }) {
  const mark = hex(crypto.getRandomValues(new Uint8Array(8)));
  const name = `foretold/1/selftest/${mark}`;
  const parts = {
    kv: await tried(kv, () => kvRound(kv, name, mark)),
    r2: await tried(bucket, () => conditionalWrite(bucket, name, mark)),
    logs: await tried(logs, () => conditionalWrite(logs, name, mark)),
    cache: await tried(caches, () => missThenHit(caches, `${origin}/-/${name}`, mark)),
    workers_cache: await tried(front, () => keptInFront(front, kv, mark)),
    query: await tried(node, () => askedTwice(node, mark, later)),
    page: await tried(assets, () => pageIsThere(assets, origin)),
    ai: model === null ? (ai ? "bound" : "off") : await tried(ai, () => oneToken(ai, model)),
  };
  const isSound = Object.values(parts).every((part) => ["ok", "off", "bound"].includes(part));
  return { status: isSound ? "ok" : "failing", parts, status_code: isSound ? 200 : 503 };
}

async function tried(binding, trial) {
  if (!binding) return "off";
  try {
    return (await within(trial(), TRIAL_MS, () => new StoreError(`no answer within ${TRIAL_MS / 1000} s`))) ?? "ok";
  } catch (error) {
    return error.message;
  }
}

async function kvRound(kv, name, mark) {
  await kv.put(name, mark, { expirationTtl: KEEP_S });
  const found = await kv.get(name);
  await kv.delete(name);
  return found === mark ? null : "what was written could not be read back at once";
}

/** A second create-only write must find the first: what R2's conditions are for. */
async function conditionalWrite(bucket, name, mark) {
  const onlyIf = { etagDoesNotMatch: "*" };
  const first = await bucket.put(name, mark, { onlyIf });
  const second = await bucket.put(name, "another", { onlyIf });
  const found = await (await bucket.get(name))?.text();
  await bucket.delete(name);
  if (first === null) return "a create-only write of a new name was refused";
  return second === null && found === mark ? null : "a create-only write replaced what was there";
}

async function missThenHit(caches, address, mark) {
  const cache = await caches.open("foretold/1");
  if ((await cache.match(address)) !== undefined) return "a new name was found";
  await cache.put(address, new Response(utf8(mark), { headers: { "cache-control": "max-age=60" } }));
  const found = await cache.match(address);
  await cache.delete(address);
  if (found === undefined) return "nothing is kept here: the Cache API works on custom domains and routes only";
  return (await found.text()) === mark ? null : "something else was found";
}

/** What is read twice through Workers Cache must come from it the second time. */
async function keptInFront(front, kv, mark) {
  const [namespace, key] = [mark.repeat(4), mark.repeat(4)];
  const name = recordName(namespace, key);
  await kv.put(name, mark, { expirationTtl: KEEP_S });
  const statuses = [];
  for (let time = 1; time <= 2; time++) {
    const answer = await front.fetch(new Request(INNER + name));
    statuses.push(answer.headers.get("cf-cache-status") ?? "none");
    if ((await answer.text()) !== mark) return "the inner entrypoint did not give what is in KV";
  }
  await kv.delete(name);
  if (statuses[1] === "HIT") return null;
  return `read twice, Cf-Cache-Status was ${statuses.join(", then ")}: turn Workers Cache on for the entrypoint Records`;
}

/** A query of our own goes the way of all: asked of its origin, then answered from a tier. */
async function askedTwice(node, mark, later) {
  const route = new Route({ name: "selftest", kind: "model", models: ["*"], origin: new Chain([new Echo(mark)]) });
  const trial = node.withRoute(route);
  const statuses = [];
  for (let time = 1; time <= 2; time++) {
    const visit = { later, signal: new AbortController().signal };
    const answer = await trial.answer(headOf(mark), utf8(JSON.stringify({ mark })), { outcome: begun(0, later), visit });
    const body = answer.body ?? (await collected(answer.chunks));
    answer.close?.();
    if (textOf(body) !== `{"mark":"${mark}"}`) return "a query was answered with something else";
    statuses.push(new Map(answer.headers).get("cache-status"));
  }
  if (statuses[0].includes("; hit")) return `a query that was never asked was a hit: ${statuses[0]}`;
  return statuses[1].includes("; hit") ? null : `a query asked twice was no hit: ${statuses[1]}`;
}

/** An origin that says what it is told to. */
class Echo {
  name = "selftest";
  limitsAnswers = false;
  #mark;

  constructor(mark) {
    this.#mark = mark;
  }

  async fetch() {
    return new WholeAnswer(200, [["content-type", "application/json"]], utf8(JSON.stringify({ mark: this.#mark })));
  }
}

function headOf(mark) {
  return {
    method: "POST",
    path: `/predict/selftest-${mark}`,
    query: "",
    headers: [],
    dialect: new Predict(),
    tenant: "local:",
    ownCredential: null,
    controls: controls({ storeTtlS: SELFTEST_S, maxAgeS: SELFTEST_S }),
    ifNoneMatch: null,
  };
}

async function pageIsThere(assets, origin) {
  const answer = await assets.fetch(new Request(`${origin}/`));
  return answer.status === 200 ? null : `the page is not among the assets: / answered ${answer.status}`;
}

async function oneToken(ai, model) {
  const told = await ai.run(model, { messages: [{ role: "user", content: "Say yes." }], max_tokens: 1 });
  return told && typeof told === "object" ? null : "the model answered nothing";
}
