// Calls functions of a module of static/live/ in Node: its name on the command line, on stdin a list of functions, each
// with its arguments; what they return, or the text of their error, goes to stdout.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder, name] = process.argv.slice(2);
const module = await import(pathToFileURL(`${folder}/live/${name}.js`).href);
const found = JSON.parse(readFileSync(0, "utf-8")).map(([call, ...given]) => {
  try {
    return { value: module[call](...given) };
  } catch (error) {
    return { error: String(error) };
  }
});
process.stdout.write(JSON.stringify(found));
