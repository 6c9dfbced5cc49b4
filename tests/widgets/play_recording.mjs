// Plays a recorded page in Node: the folder of the modules, a packed page, and what makes its model (a module and a name in it)
// on the command line; on stdin a list of messages. To stdout goes all that views would get, with columns in base64.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, file, player, name] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(`${folder}/${name}.js`).href);
const { read } = await module("packed");
const { [name]: create } = await module(player);
const { header, columns } = await read(readFileSync(file, "utf-8"));
const model = create(header, columns);
const sent = [];
model.on("msg:custom", (message, buffers) => {
  sent.push([message, buffers.map(({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength).toString("base64"))]);
});
for (const message of JSON.parse(readFileSync(0, "utf-8"))) model.send(message);
await new Promise((done) => setTimeout(done)); // some answer a little later
process.stdout.write(JSON.stringify(sent));
