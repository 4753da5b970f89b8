// Starts OpenClaw with the question from standard input: arguments of a process are public, and bounded in length.
// Says on standard error when the model is asked for the first time, which is where start-up ends.
//
// node launch.mjs ENTRY ARGUMENT... < QUESTION
import diagnostics from "node:diagnostics_channel";
import { pathToFileURL } from "node:url";

const [entry, ...words] = process.argv.slice(2);

const onRequest = ({ request }) => {
  if (String(request.path).includes("/chat/completions")) {
    diagnostics.unsubscribe("undici:request:create", onRequest);
    process.stderr.write("snellen: the model is asked\n");
  }
};
diagnostics.subscribe("undici:request:create", onRequest);

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
process.argv = [process.argv[0], entry, ...words, "--message", Buffer.concat(chunks).toString("utf8")];
await import(pathToFileURL(entry).href);
