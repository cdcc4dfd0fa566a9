/** Small parts of the edge that need no platform. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { utf8, textOf } from "../src/contract/bytes.js";
import { asUtf8, fieldsOf } from "../src/fields.js";
import { askingForUsage, fromRawMembers, rawMembers } from "../src/forwarding.js";
import { Halves } from "../src/halves.js";
import { openAiEvents } from "../src/origins/native.js";
import { matches } from "../src/patterns.js";

for (const [text, pattern, isSo] of [
  ["gpt-5", "gpt-*", true],
  ["gpt", "gpt-*", false],
  ["abcabd", "a*b?", true],
  ["abab", "*ab*ab", true],
  ["ab", "ab*ab", false],
  ["", "*", true],
  ["a😀b", "a?b", true],
  ["a.b", "a.b", true],
  ["axb", "a.b", false],
]) {
  test(`'${text}' ${isSo ? "matches" : "does not match"} '${pattern}'`, () => {
    assert.equal(matches(text, pattern), isSo);
  });
}

test("no text takes long to match", () => {
  const beganMs = performance.now();

  assert.equal(matches("a".repeat(2000), `${"*a".repeat(50)}*b`), false);

  assert.ok(performance.now() - beganMs < 1000);
});

test("a member taken out leaves the bytes of all others", () => {
  const body = '{ "a" : [1.0, "}\\"]"] ,"cache":{"x":"{"}, "e":1e5,"\\u0062" : null }';

  const members = rawMembers(utf8(body));
  members.delete("cache");

  assert.equal(textOf(fromRawMembers(members)), '{"a":[1.0, "}\\"]"],"e":1e5,"b":null}');
});

test("usage is asked for by one member, and all other bytes stay", () => {
  const asked = { usage: false, operation: "chat", body: utf8('{"stream":true,"temperature":1.0}') };

  const [question, tells] = askingForUsage(asked, { asksUsage: true });

  assert.equal(textOf(question.body), '{"stream":true,"temperature":1.0,"stream_options":{"include_usage":true}}');
  assert.ok(tells);
});

test("what halves hold costs no more than their limit", () => {
  const halves = new Halves(100);

  for (let i = 0; i < 1000; i++) {
    halves.put(i % 17, i, { cost: (i % 13) + 1 });
    halves.get((i * 7) % 17);
    assert.ok(halves.cost <= 100);
  }

  assert.equal(halves.put("long", 1, { cost: 51 }), false);
  halves.put("a", 1, { cost: 10 });
  halves.delete("a");
  assert.equal(halves.get("a"), undefined);
});

test("a field's value is its bytes, and goes out as it came", () => {
  const [[name, value]] = fieldsOf([["X-Name", "é"]]);

  assert.deepEqual([name, value], ["x-name", "Ã©"]);
  assert.equal(asUtf8(value), "é");
  assert.equal(asUtf8("\xff"), "\xff");
});

test("native events are made one by one, however their bytes are cut", async () => {
  const native = utf8('data: {"response":"Hi "}\n\ndata: {"response":"there"}\n\ndata: [DONE]\n\n');
  async function* pieces() {
    for (let at = 0; at < native.length; at += 7) yield native.subarray(at, at + 7);
  }
  const asked = { operation: "chat", model: "m", body: utf8("{}") };

  let told = "";
  for await (const chunk of openAiEvents(pieces(), asked, 0)) told += textOf(chunk);

  const events = told.split("\n\n").filter((event) => event.startsWith("data: {"));
  const chunks = events.map((event) => JSON.parse(event.slice("data: ".length)));
  assert.deepEqual(chunks.map(({ choices: [{ delta }] }) => delta.content), ["Hi ", "there", undefined]);
  assert.equal(chunks.at(-1).choices[0].finish_reason, "stop");
  assert.ok(told.endsWith("data: [DONE]\n\n"));
});
