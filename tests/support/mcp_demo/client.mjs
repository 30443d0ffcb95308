// A client made with the protocol's SDK for JavaScript: calls run_task for each task and prints what
// came of it as JSON.
//   node client.mjs NODE_MODULES FORM TASKS COMMAND ARGUMENT…
// FORM: the values with which every form is answered, or null for a client without forms.
import { pathToFileURL } from "node:url";

const [modules, form, tasks, command, ...args] = process.argv.slice(2);
const sdk = (file) =>
  import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/${file}`).href);
const { Client } = await sdk("client/index.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { ElicitRequestSchema } = await sdk("types.js");

const content = JSON.parse(form);
const capabilities = content ? { elicitation: { form: {} } } : {};
const client = new Client({ name: "other-agent", version: "1" }, { capabilities });
const forms = [];
const progress = [];
if (content) {
  client.setRequestHandler(ElicitRequestSchema, async (request) => {
    forms.push(request.params);
    return { action: "accept", content };
  });
}
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const { tools } = await client.listTools();
const results = [];
for (const task of JSON.parse(tasks)) {
  const call = { name: "run_task", arguments: { task } };
  results.push(await client.callTool(call, undefined, { onprogress: (step) => progress.push(step) }));
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), forms, progress, results }));
