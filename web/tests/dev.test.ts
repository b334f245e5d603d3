import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { makeEndpoints, makeKeys, makeModels, makeNotices, makeRecords } from "../dev/data.mjs";

const document = JSON.parse(readFileSync(new URL("../openapi.json", import.meta.url), "utf8"));
const fields = (name: string) => Object.keys(document.components.schemas[name].properties).sort();

it("the made-up data have the fields of the daemon's, all and no others", () => {
  const pairs: [string, object[]][] = [
    ["ModelInfo", [...makeModels(), ...makeEndpoints(2)]],
    ["Record", makeRecords()],
    ["KeyInfo", makeKeys()],
    ["Notice", makeNotices()],
  ];
  for (const [name, items] of pairs) {
    for (const item of items) expect(Object.keys(item).sort(), name).toEqual(fields(name));
  }
});
