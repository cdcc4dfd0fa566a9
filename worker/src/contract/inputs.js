/** The input of a query in one form: what of a body counts, and its digest (rules K4 to K7, K10, K12). */

import { digest, utf8 } from "./bytes.js";
import { canonical, isObject } from "./canonical.js";
import { Malformed } from "./errors.js";

export const OPENAI_SHAPED = new Set([
  "chat", "completion", "embedding", "responses", "messages", "moderation", "image",
]);

const TAKEN_OUT = new Set([
  "model", "stream", "stream_options", "user", "metadata", "safety_identifier", "prompt_cache_key",
  "prompt_cache_retention", "service_tier", "encoding_format",
]);
const NEVER_IGNORED = new Set(["messages", "input", "prompt", "model", "tools"]);
const MOST_INPUTS = 2048;
const INPUTS = "a text, a list of texts, a token array or a list of them, and not empty";
const SERVER_STATE = ["background", "previous_response_id", "conversation", "container"];
const REMOTE_TOOLS = ["web_search_options", "mcp_servers"];

/** Hex SHA-256 of what counts of a settled JSON body. */
export function jsonInput(operation, value, { ignored = [] } = {}) {
  return digest(utf8(canonical(keyed(operation, value, { ignored }))));
}

/**
 * What counts of a settled JSON body: all of it, but for OpenAI-shaped operations rules K5 to K7.
 *
 * `ignored` are the top-level names a caller asked to leave out (rule C3); those that carry the question never are.
 */
export function keyed(operation, value, { ignored = [] } = {}) {
  if (!OPENAI_SHAPED.has(operation) || !isObject(value)) return value;
  const leftOut = new Set([...TAKEN_OUT, ...ignoredNames(ignored)]);
  const members = Object.fromEntries(
    Object.entries(value).filter(
      ([name, member]) =>
        !leftOut.has(name) && member !== null && !isControl(name, member) && !isDefault(name, member),
    ),
  );
  if (typeof members.stop === "string") members.stop = [members.stop];
  return withCallIdsNumbered(operation, members);
}

/** The names of `Helicone-Cache-Ignore-Keys` that may be left out, sorted. */
export function ignoredNames(names) {
  return [...new Set(names)].filter((name) => !NEVER_IGNORED.has(name)).sort();
}

/** Hex SHA-256 of the bytes as they are. */
export function bytesInput(body) {
  return digest(body);
}

/** Hex SHA-256 of parts [name, content type, content] in order; file names and boundary don't count. */
export async function multipartInput(parts) {
  const rows = parts.map(async ([name, kind, content]) => [name, kind, await digest(content), content.length]);
  return digest(utf8(canonical(await Promise.all(rows))));
}

/**
 * One body per input of an embeddings request: each text or token array with all other members.
 *
 * Throws Malformed if `input` is none of text, token array, list of texts, list of token arrays, or not one to
 * `MOST_INPUTS` of them, each not empty.
 */
export function embeddingInputs(value) {
  const given = value.input;
  if (typeof given === "string" || isTokens(given)) return [{ ...value, input: notEmpty(given, "input") }];
  if (!Array.isArray(given) || given.length === 0) throw new Malformed(`\`input\` must be ${INPUTS}`, { param: "input" });
  if (given.length > MOST_INPUTS) {
    throw new Malformed(`\`input\` has ${given.length} inputs, ${MOST_INPUTS} are the most: ask in parts`, {
      param: "input",
    });
  }
  for (const [place, item] of given.entries()) {
    const name = `input[${place}]`;
    if (typeof item !== "string" && !(Array.isArray(item) && (item.length === 0 || isTokens(item)))) {
      throw new Malformed(`\`${name}\` is neither a text nor an array of tokens`, { param: name });
    }
    notEmpty(item, name);
  }
  return given.map((item) => ({ ...value, input: item }));
}

/**
 * Hex SHA-256 of a tensor request.
 *
 * Each input has name, datatype, shape, content (little-endian bytes) and perhaps parameters; each requested output
 * a name and perhaps parameters.  Members called `binary_data*` say how bytes travel and don't count.
 */
export async function tensorInput(inputs, outputs, parameters) {
  const named = await Promise.all(
    inputs.map(async (t) => [t.name, t.datatype, t.shape, await digest(t.content), lasting(t.parameters)]),
  );
  const wanted = outputs.map((output) => [output.name, lasting(output.parameters)]);
  for (const rows of [named, wanted]) rows.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
  return digest(utf8(canonical([named, wanted, lasting(parameters)])));
}

/** Why a query of this body may not be cached at all (rule K12): `server-state` or `remote-tool`; null if it may. */
export function mustPass(operation, value) {
  if (!OPENAI_SHAPED.has(operation) || !isObject(value)) return null;
  if (["store", ...SERVER_STATE].some((name) => isAsked(value[name]))) return "server-state";
  if (operation === "responses" && (isObject(value.prompt) || hasItemReference(value.input))) return "server-state";
  if (REMOTE_TOOLS.some((name) => (value[name] ?? null) !== null)) return "remote-tool";
  if (Array.isArray(value.tools) && value.tools.some(isRemote)) return "remote-tool";
  return null;
}

function isControl(name, member) {
  return name === "cache" && isObject(member);
}

/** K6. */
function isDefault(name, member) {
  return (name === "n" && member === 1) || (name === "logprobs" && member === false);
}

/** K7: ids that only tie a call to its result become #0, #1 … in order of first appearance. */
function withCallIdsNumbered(operation, members) {
  const numbers = new Map();

  function numberOf(id) {
    if (!numbers.has(id)) numbers.set(id, `#${numbers.size}`);
    return numbers.get(id);
  }

  function numbered(holder, ...names) {
    if (!isObject(holder)) return holder;
    const own = names.filter((name) => typeof holder[name] === "string");
    return { ...holder, ...Object.fromEntries(own.map((name) => [name, numberOf(holder[name])])) };
  }

  function each(holder, name, change) {
    if (!isObject(holder) || !Array.isArray(holder[name])) return holder;
    return { ...holder, [name]: holder[name].map((item) => change(item)) };
  }

  function chatMessage(message) {
    return each(numbered(message, "tool_call_id"), "tool_calls", (call) => numbered(call, "id"));
  }

  function contentBlock(block) {
    const own = isObject(block) && block.type === "tool_use" ? ["id"] : [];
    return numbered(block, ...own, "tool_use_id");
  }

  switch (operation) {
    case "chat":
      return each(members, "messages", chatMessage);
    case "responses":
      return each(members, "input", (item) => numbered(item, "call_id", "id"));
    case "messages":
      return each(members, "messages", (message) => each(message, "content", contentBlock));
    default:
      return members;
  }
}

function isTokens(item) {
  return Array.isArray(item) && item.length > 0 && item.every(Number.isInteger);
}

function notEmpty(item, name) {
  if (item.length > 0) return item;
  throw new Malformed(`\`${name}\` is empty: leave it out, or say what to embed`, { param: name });
}

/** Anything but null and false. */
function isAsked(member) {
  return (member ?? null) !== null && member !== false;
}

function hasItemReference(items) {
  return Array.isArray(items) && items.some((item) => isObject(item) && isItemReference(item));
}

/** The API lets a reference leave out its type; what has neither type nor role can only be one. */
function isItemReference(item) {
  return item.type === "item_reference" || ((item.type ?? null) === null && !Object.hasOwn(item, "role"));
}

function isRemote(tool) {
  return isObject(tool) && Object.hasOwn(tool, "type") && tool.type !== "function" && tool.type !== "custom";
}

function lasting(parameters) {
  return Object.fromEntries(
    Object.entries(parameters ?? {}).filter(([name]) => !name.startsWith("binary_data")),
  );
}
