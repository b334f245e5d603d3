import { mount } from "svelte";
import App from "./App.svelte";
import { takeCode } from "./lib/login";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/table.css";

// First of all: no code stays in the address.
const code = takeCode(location, history);

const target = document.getElementById("app");
if (target) mount(App, { target, props: { code } });
