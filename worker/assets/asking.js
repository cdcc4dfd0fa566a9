/** One question to a model, and how it was answered. */

const EDGE = /^Foretold-Edge\s*;/;

/**
 * Asks, and tells the text as it comes.
 *
 * Gives `text`, `how`, `status` (the edge's Cache-Status) and the milliseconds to the first words and to the end.
 * Throws an Error that says what went wrong.
 */
export async function ask({ model, question, key }, { send, nowMs, tell }) {
  const beganMs = nowMs();
  const answer = await send("/v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({ model, messages: [{ role: "user", content: question }], stream: true }),
  });
  if (!answer.ok) throw new Error(messageIn(await answer.text(), answer.status));
  const status = ours(answer.headers.get("cache-status") ?? "");
  let text = "";
  let firstMs = null;
  for await (const piece of textsOf(answer)) {
    firstMs ??= nowMs() - beganMs;
    text += piece;
    tell(text);
  }
  const allMs = nowMs() - beganMs;
  return { text, how: howOf(status), status, firstMs: firstMs ?? allMs, allMs };
}

/** What the edge says, of a list that other caches may have begun. */
export function ours(cacheStatus) {
  return cacheStatus.split(/,\s*(?=[A-Za-z])/).findLast((member) => EDGE.test(member)) ?? "";
}

/** In the words of the project's counts. */
export function howOf(status) {
  if (/;\s*hit\b/.test(status)) return /;\s*ttl=-/.test(status) ? "stale" : "hit";
  if (/;\s*collapsed\b/.test(status)) return "collapsed";
  if (/;\s*fwd=bypass\b/.test(status)) return "pass";
  return /;\s*fwd=/.test(status) ? "miss" : "unknown";
}

/** The texts of an answer: pieces of its events, or of a whole one its only text. */
async function* textsOf(answer) {
  if (!(answer.headers.get("content-type") ?? "").startsWith("text/event-stream")) {
    const { choices = [] } = await answer.json();
    yield choices[0]?.message?.content ?? "";
    return;
  }
  for await (const data of eventsOf(answer.body)) {
    if (data === "[DONE]") return;
    const { choices = [], error } = JSON.parse(data);
    if (error) throw new Error(`The answer broke off: ${error.message ?? "no reason was given"}`);
    const piece = choices[0]?.delta?.content;
    if (piece) yield piece;
  }
  throw new Error("The answer broke off before its end.");
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data:")) yield line.slice(5).trim();
  }
}

/** What an error's body says, in OpenAI's shape or as a problem. */
function messageIn(body, status) {
  try {
    const told = JSON.parse(body);
    return told.error?.message ?? told.detail ?? told.title ?? `The edge answered ${status}.`;
  } catch {
    return `The edge answered ${status}.`;
  }
}
