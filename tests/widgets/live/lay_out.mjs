// Lays out pictures in Node: the folder of the page's modules on the command line; on stdin, as JSON, networks with their
// looks. Writes a list of layouts for each network.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { layOut } = await import(pathToFileURL(`${process.argv[2]}/live/layout.js`).href);
const found = JSON.parse(readFileSync(0, "utf-8")).map(({ nodes, kinds, instance, instances, src, dst, gpus, used, looks }) => {
  const rankOf = new Map(gpus.map((node, rank) => [node, rank]));
  const network = { nodes, src, dst, gpus, rankOf, instance, kindOf: (node) => kinds[node], instanceName: (node) => instances[node] };
  return looks.map((look) => {
    const { units, ...layout } = layOut(network, used, look);
    return { ...layout, units: { ...units, of: [...units.of] } };
  });
});
process.stdout.write(JSON.stringify(found));
