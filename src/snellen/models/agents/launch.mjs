// Starts OpenClaw with the question from standard input: arguments of a process are public, and bounded in length.
// Says on standard error when the model is asked for the first time, which is where start-up ends.
//
// node launch.mjs ENTRY ARGUMENT... < QUESTION
//
// Where the sandbox has a proxy to the web, OpenClaw's web_fetch is led there: of itself it resolves names, which nothing
// in the sandbox can, and connects past the proxy. Proxy and names are then those of the gateway, which checks addresses.
import diagnostics from "node:diagnostics_channel";
import dns from "node:dns/promises";
import { syncBuiltinESMExports } from "node:module";
import { pathToFileURL } from "node:url";

const [entry, ...words] = process.argv.slice(2);

const onRequest = ({ request }) => {
  if (String(request.path).includes("/chat/completions")) {
    diagnostics.unsubscribe("undici:request:create", onRequest);
    process.stderr.write("snellen: the model is asked\n");
  }
};
diagnostics.subscribe("undici:request:create", onRequest);

if (process.env.HTTP_PROXY && process.env.NODE_USE_ENV_PROXY) {
  const { fetch, lookup } = { fetch: globalThis.fetch, lookup: dns.lookup };
  // A public address, which is not connected to: web_fetch refuses by itself the literal addresses that are not.
  dns.lookup = async (name, options) => (options?.all ? [{ address: "1.1.1.1", family: 4 }] : lookup(name, options));
  syncBuiltinESMExports();
  globalThis.fetch = (target, { dispatcher, ...options } = {}) => fetch(target, options);
}

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
process.argv = [process.argv[0], entry, ...words, "--message", Buffer.concat(chunks).toString("utf8")];
await import(pathToFileURL(entry).href);
