/** Streams of any language, cut anywhere: every chunk a caller gets is whole code points, and what is kept is as told. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { inFront } from "./in_front.js";
import { chatBody, textOf } from "./running.js";

const LANGUAGES = {
  vietnamese: "Thủ đô của Việt Nam là Hà Nội, phải không ạ?",
  thai: "ประเทศไทยมีเมืองหลวงคือกรุงเทพมหานคร",
  arabic: "عاصمة مصر هي القاهرة، أليس كذلك؟",
  emoji: "👩‍👩‍👧‍👦 🇻🇳 👍🏽 a𝄞b",
};
const LONGEST_EVENT_BYTES = 8 * 2 ** 20;

const { origin, edge } = await inFront((origin) => ({
  settings: { upstreams: { fake: { url: origin.url } }, undeclared: "fake" },
}));

/** A reply in the pieces it is given; after the first it waits for `release`. */
function inPieces(pieces, { kind, status = 200 } = {}) {
  return {
    async wire(socket) {
      socket.write(`HTTP/1.1 ${status} X\r\ncontent-type: ${kind}\r\ntransfer-encoding: chunked\r\n\r\n`);
      for (const [at, piece] of pieces.entries()) {
        if (at === 1) await new Promise((go) => (origin.go = go));
        socket.write(`${piece.length.toString(16)}\r\n`);
        socket.write(piece);
        socket.write("\r\n");
      }
      socket.write("0\r\n\r\n");
    },
  };
}

/** Where a text of several bytes a character is cut inside its middle one. */
function insideOf(bytes) {
  let at = Math.floor(bytes.length / 2);
  while ((bytes[at] & 0xc0) !== 0x80) at += 1;
  return at;
}

/** What comes until so many bytes are here, all of it in pieces of whole code points. */
async function wholeUntil(answer, leastBytes) {
  const pieces = [];
  for (let length = 0; length < leastBytes; length += pieces.at(-1).length) {
    pieces.push(await answer.next());
    assert.ok(!pieces.at(-1).toString().includes("\ufffd"));
  }
  return Buffer.concat(pieces);
}

function transcriptOf(text) {
  const common = { id: "fake", created: 1_700_000_000, model: "m", object: "chat.completion.chunk" };
  const choices = [...text].map((content) => ({ index: 0, delta: { content }, finish_reason: null }));
  choices.push({ index: 0, delta: {}, finish_reason: "stop" });
  const events = choices.map((choice) => `data: ${JSON.stringify({ ...common, choices: [choice] })}\n\n`);
  return Buffer.from(`${events.join("")}data: [DONE]\n\n`);
}

for (const [language, text] of Object.entries(LANGUAGES)) {
  test(`a stream in ${language} cut inside a character comes in whole ones and is kept as it was told`, async () => {
    const transcript = transcriptOf(text);
    const at = insideOf(transcript);
    origin.reset([inPieces([transcript.subarray(0, at), transcript.subarray(at)], { kind: "text/event-stream" })]);
    const body = JSON.stringify(chatBody("hello", { stream: true }));
    const answer = await edge.open("POST", "/v1/chat/completions", { body });

    const first = await wholeUntil(answer, transcript.lastIndexOf("\n\n", at) + 2);
    origin.go();
    const rest = await answer.whole();

    assert.deepEqual(Buffer.concat([first, rest.bytes]), transcript);
    const again = await edge.chat("hello", { stream: true });
    assert.ok(again.isHit);
    assert.deepEqual(again.bytes, transcript);
    assert.equal(textOf(await edge.chat("hello")), text);
  });

  test(`what passes in ${language} is cut between code points`, async () => {
    const content = Buffer.from(JSON.stringify({ label: text }));
    const at = insideOf(content);
    origin.reset([inPieces([content.subarray(0, at), content.subarray(at)], { kind: "application/json" })]);
    const answer = await edge.open("POST", "/v1/classify", { body: JSON.stringify(chatBody("hello")) });

    const first = await wholeUntil(answer, at - 3);
    origin.go();
    const rest = await answer.whole();

    assert.ok(first.length < at);
    assert.deepEqual(Buffer.concat([first, rest.bytes]), content);
  });
}

test("bytes that are no text are cut where they come", async () => {
  const content = Buffer.from([0x61, 0xe0, 0xb8, 0x81]);
  origin.reset([inPieces([content.subarray(0, 2), content.subarray(2)], { kind: "application/octet-stream" })]);
  const answer = await edge.open("POST", "/v1/audio", { body: JSON.stringify(chatBody("hello")) });

  const first = await answer.next();
  origin.go();
  const rest = await answer.whole();

  assert.deepEqual(first, content.subarray(0, 2));
  assert.deepEqual(Buffer.concat([first, rest.bytes]), content);
});

test("what follows an event too long to wait for is cut between code points too", async () => {
  const head = Buffer.from(`data: ${"x".repeat(LONGEST_EVENT_BYTES)} ก`);
  const tail = Buffer.from("ข\n\ndata: [DONE]\n\n");
  const pieces = [head.subarray(0, -1), Buffer.concat([head.subarray(-1), tail])];
  origin.reset([inPieces(pieces, { kind: "text/event-stream" })]);
  const body = JSON.stringify(chatBody("hello", { stream: true }));
  const answer = await edge.open("POST", "/v1/chat/completions", { body });

  const first = await wholeUntil(answer, head.length - 3);
  origin.go();
  const rest = await answer.whole();

  assert.equal(first.length, head.length - 3);
  assert.deepEqual(Buffer.concat([first, rest.bytes]), Buffer.concat([head, tail]));
});
