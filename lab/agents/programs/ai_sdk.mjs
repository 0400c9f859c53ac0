// Agent of several steps with the AI SDK's default provider, which uses OpenAI's Responses.
import { execSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const find = createRequire(`${process.env.AGENT_PACKAGES}/`);
const { streamText, tool, jsonSchema, stepCountIs } = await import(find.resolve("ai"));
const { openai } = await import(find.resolve("@ai-sdk/openai"));

const strings = (...names) =>
  jsonSchema({
    type: "object",
    properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
    required: names,
    additionalProperties: false,
  });
const tools = {
  write_file: tool({
    description: "Writes a file.",
    inputSchema: strings("path", "content"),
    execute: ({ path, content }) => (writeFileSync(path, content), "written"),
  }),
  run: tool({
    description: "Runs a command.",
    inputSchema: strings("command"),
    execute: ({ command }) => execSync(command, { encoding: "utf8" }),
  }),
};
const result = streamText({ model: openai("local"), prompt: process.argv[2], tools, stopWhen: stepCountIs(9) });
for await (const text of result.textStream) process.stdout.write(text);
