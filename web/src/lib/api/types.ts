// Names for what the API sends. The schema marks fields that have a default as
// optional; the daemon always sends them all.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type ModelInfo = Required<Schemas["ModelInfo"]>;
export type Fit = Required<Schemas["Fit"]>;
export type Fits = { [id: string]: Fit };
export type ModelState = ModelInfo["state"];
export type LiveRequest = Required<Schemas["LiveRequest"]>;
export type RequestRecord = Required<Schemas["Record"]>;
export type Status = Required<Schemas["Status"]>;
export type KeyInfo = Required<Schemas["KeyInfo"]>;
export type KeyLimit = KeyInfo["limits"][number];
export type NewKey = Schemas["NewKey"];
export type Notice = Required<Schemas["Notice"]>;
