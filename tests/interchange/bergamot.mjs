// Translate lines by the npm package of Bergamot, as a program that uses it would.
//
//   node bergamot.mjs PACKAGE EXPORT FROM TO [html] < lines > translations

import {readFileSync} from "node:fs";
import {join, resolve} from "node:path";
import {pathToFileURL} from "node:url";

const [pack, folder, from, to, kind] = process.argv.slice(2);
const {BatchTranslator, TranslatorBacking} = await import(
  pathToFileURL(join(resolve(pack), "translator.js"))
);

class Exported extends TranslatorBacking {
  async loadModelRegistery() {
    const registry = JSON.parse(readFileSync(join(folder, "registry.json"), "utf-8"));
    return [{from, to, files: registry[from + to]}];
  }

  async fetch(name) {
    return new Uint8Array(readFileSync(join(folder, name))).buffer;
  }
}

const options = {pivotLanguage: null, workers: 1};
const translator = new BatchTranslator(options, new Exported(options));
const lines = readFileSync(0, "utf-8").split("\n").slice(0, -1);
const translated = await Promise.all(
  lines.map((text) => translator.translate({from, to, text, html: kind === "html"})),
);
for (const {target} of translated) console.log(target.text);
await translator.delete();
