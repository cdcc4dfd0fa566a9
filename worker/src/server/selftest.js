/** Whether what is bound here works as it must, tried for real: asked for after each deploy. */

import { hex, utf8 } from "../contract/bytes.js";
import { within } from "../deadlines.js";
import { StoreError } from "../errors.js";

const TRIAL_MS = 5000;
// A day: nothing of it is left behind, even if the trial is cut.
const KEEP_S = 86_400;

/** Each part as `ok`, `off` (not bound) or what went wrong; `model`, if given, is asked one token. */
export async function selftest({ kv, bucket, caches, origin, ai }, { model }) {
  const mark = hex(crypto.getRandomValues(new Uint8Array(8)));
  const name = `foretold/1/selftest/${mark}`;
  const parts = {
    kv: await tried(kv, () => kvRound(kv, name, mark)),
    r2: await tried(bucket, () => conditionalWrite(bucket, name, mark)),
    cache: await tried(caches, () => missThenHit(caches, `${origin}/-/${name}`, mark)),
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

async function oneToken(ai, model) {
  const told = await ai.run(model, { messages: [{ role: "user", content: "Say yes." }], max_tokens: 1 });
  return told && typeof told === "object" ? null : "the model answered nothing";
}
