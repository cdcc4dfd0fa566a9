// Asks a node through the official client: node ask.js BASE_URL < {"messages": …, "streamed": …} → the answer as the
// client's own objects tell it.  One question a line, one answer a line.
import { createInterface } from "node:readline";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-test", maxRetries: 0 });

for await (const line of createInterface({ input: process.stdin })) {
  const { streamed, ...asked } = JSON.parse(line);
  console.log(JSON.stringify(await (streamed ? putTogether(asked) : client.chat.completions.create(asked))));
}

async function putTogether(asked) {
  const stream = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
  return stream.finalChatCompletion();
}
