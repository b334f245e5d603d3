// Which part of the page a phone shows, as its address says: `#/chat`. The slash keeps it
// apart from a sign-in link's `#code=…`.
export const TABS = ["models", "requests", "keys", "chat"] as const;
export type Tab = (typeof TABS)[number];

const HASH: { [tab in Tab]: string } = {
  models: "#/",
  requests: "#/requests",
  keys: "#/keys",
  chat: "#/chat",
};

export const hashOf = (tab: Tab): string => HASH[tab];

/** The tab of an address; what is no tab's is the first one's. */
export function tabOf(hash: string): Tab {
  return TABS.find((tab) => HASH[tab] === hash) ?? "models";
}
