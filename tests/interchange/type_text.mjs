// Types into the page of examples/browser in Chromium, and prints what it shows, as JSON.
//
//   node type_text.mjs MODULES CHROMIUM PROFILE URL WORD... [SCREENSHOT.png]
//
// Words in asterisks are typed in bold.

import {join} from "node:path";
import {createRequire} from "node:module";

const [modules, executablePath, profile, url, ...words] = process.argv.slice(2);
const {chromium} = createRequire(join(modules, "node_modules", "x"))("playwright-core");
const screenshot = words.at(-1).endsWith(".png") ? words.pop() : null;

const args = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update",
];
const context = await chromium.launchPersistentContext(profile, {
  executablePath, args, headless: true, viewport: {width: 1000, height: 420},
});
const page = await context.newPage();
const errors = [];
page.on("pageerror", (error) => errors.push(error.message));
await page.goto(url);

const status = () => page.textContent("#status");
const until = (pattern) =>
  page.waitForFunction(
    (source) => new RegExp(source).test(document.getElementById("status").textContent),
    pattern,
    {timeout: 240_000},
  );
await until("Ready|Error");
for (const [number, word] of words.entries()) {
  const isBold = word.startsWith("*");
  if (number) await page.keyboard.type(" ");
  if (isBold) await page.keyboard.press("Control+b");
  await page.keyboard.type(word.replaceAll("*", ""));
  if (isBold) await page.keyboard.press("Control+b");
}
// The last letter's translation has come when nothing changes any more.
let shown = null;
for (let now = ""; shown !== now || !now; ) {
  shown = now;
  await page.waitForTimeout(2_000);
  now = (await status()).includes("Error") ? "error" : await page.innerHTML("#target");
}
if (screenshot) await page.screenshot({path: screenshot});
const found = {status: await status(), errors};
for (const id of ["from", "to", "source", "target"]) found[id] = await page.innerHTML(`#${id}`);
console.log(JSON.stringify(found));
await context.close();
