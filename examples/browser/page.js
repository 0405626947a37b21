// Translates while you type, by Bergamot, which runs in a worker. See README.md.

import {
  LatencyOptimisedTranslator,
  SupersededError,
  TranslatorBacking,
} from "./node_modules/@browsermt/bergamot-translator/translator.js";

const MODEL = "model/"; // what `nmt export bergamot` wrote

const [source, target, status] = ["source", "target", "status"].map((id) =>
  document.getElementById(id),
);

async function readJson(name) {
  const response = await fetch(MODEL + name);
  if (!response.ok) throw new Error(`${MODEL}${name} is missing; export a model to that folder`);
  return response.json();
}

// The package has models of its own on the web. This one is in MODEL.
class LocalModel extends TranslatorBacking {
  async loadModelRegistery() {
    const [metadata, registry] = await Promise.all(["metadata.json", "registry.json"].map(readJson));
    const [from, to] = [metadata.sourceLanguage, metadata.targetLanguage];
    const names = [metadata.sourceName ?? nameOf(from), metadata.targetName ?? nameOf(to)];
    return [{from, to, names, files: registry[from + to]}];
  }

  fetch(name, checksum, options) {
    return super.fetch(MODEL + name, checksum, options);
  }
}

const options = {pivotLanguage: null};
const backing = new LocalModel(options);
backing.onerror = report;
const translator = new LatencyOptimisedTranslator(options, backing);

function report(error) {
  status.textContent = `Error: ${error.message ?? error}`;
}

function nameOf(language) {
  try {
    return new Intl.DisplayNames("en", {type: "language"}).of(language.replaceAll("_", "-"));
  } catch {  // it is not formed as a language code
    return language;
  }
}

async function translate() {
  const {from, to} = (await backing.registry)[0];
  const text = source.innerHTML;
  const start = performance.now();
  try {
    const response = await translator.translate({from, to, text, html: true});
    target.innerHTML = response.target.text;
    status.textContent = `Translated in ${Math.round(performance.now() - start)} ms.`;
  } catch (error) {
    // While one text is translated, only the newest of the others waits.
    if (!(error instanceof SupersededError)) report(error);
  }
}

source.addEventListener("input", translate);
// Pasted text comes without markup, which might contain scripts.
source.addEventListener("paste", (event) => {
  event.preventDefault();
  document.execCommand("insertText", false, event.clipboardData.getData("text/plain"));
});

try {
  const {from, to, names} = (await backing.registry)[0];
  for (const [index, id] of ["from", "to"].entries()) {
    document.getElementById(id).textContent = names[index];
  }
  source.lang = from;
  target.lang = to;
  await translator.translate({from, to, text: "", html: true}); // loads the model
  status.textContent = "Ready.";
  source.focus();
  if (source.textContent) translate();
} catch (error) {
  report(error);
}
