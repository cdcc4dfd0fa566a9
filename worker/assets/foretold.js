/** The page: asks a model twice and shows how each was answered. */

import { ask } from "./asking.js";

const byId = (id) => document.getElementById(id);
const nowMs = () => performance.now();
const send = (path, asked) => fetch(path, asked);

function shown(ms) {
  return ms < 1000 ? `${ms.toFixed(ms < 10 ? 1 : 0)} ms` : `${(ms / 1000).toFixed(2)} s`;
}

function fill(row, { how, firstMs, allMs }) {
  const cells = byId(row).querySelectorAll("td");
  const isKnown = how === "hit" || how === "stale";
  cells[0].textContent = how;
  cells[0].className = isKnown ? "hit" : "";
  cells[1].textContent = shown(firstMs);
  cells[2].textContent = shown(allMs);
}

function say(text, { isTrouble = false } = {}) {
  byId("state").textContent = text;
  byId("state").className = isTrouble ? "trouble" : "";
}

/** What is worth knowing of two answers. */
function summary(first, second) {
  if (second.how !== "hit" && second.how !== "stale") {
    return "The second was no hit: this answer is not kept. What the edge said below says why.";
  }
  if (first.how !== "miss") return "It was known before you asked. Another question shows a miss.";
  return `The second came ${shown(Math.max(0, first.allMs - second.allMs))} sooner, and the model did not run.`;
}

function clear() {
  byId("told").hidden = true;
  byId("answer").textContent = "";
  byId("status").textContent = "";
  for (const cell of document.querySelectorAll("tbody td")) [cell.textContent, cell.className] = ["", ""];
}

async function askTwice() {
  const asked = { model: byId("model").value.trim(), question: byId("question").value, key: byId("key").value.trim() };
  const tell = (text) => {
    byId("told").hidden = false;
    byId("answer").textContent = text;
  };
  clear();
  say("Asking …");
  const first = await ask(asked, { send, nowMs, tell });
  fill("first", first);
  tell(first.text);
  say("Asking again …");
  const second = await ask(asked, { send, nowMs, tell });
  fill("second", second);
  byId("status").textContent = `first: ${first.status}\nagain: ${second.status}`;
  say(summary(first, second));
}

byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("ask").disabled = true;
  try {
    await askTwice();
  } catch (error) {
    say(error instanceof TypeError ? "The edge can't be reached from here." : error.message, { isTrouble: true });
  } finally {
    byId("ask").disabled = false;
  }
});

/** Names to choose from, where the edge has any to tell without an API key. */
async function offerModels() {
  const answer = await fetch("/v1/models").catch(() => null);
  const told = answer?.ok ? await answer.json().catch(() => null) : null;
  const names = Array.isArray(told?.data) ? told.data.map(({ id }) => id).filter((id) => typeof id === "string") : [];
  byId("models").replaceChildren(...names.map((name) => Object.assign(document.createElement("option"), { value: name })));
  if (byId("model").value === "" && names.length > 0) byId("model").value = names[0];
}

offerModels();
