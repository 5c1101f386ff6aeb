// Which view is shown, who is signed in, and the keys that work everywhere.

import {ask, handedOver, hasToken, keepToken, SignInNeeded} from "./api.js";
import {calendar} from "./calendar.js";
import {el, replace, turnZone, wholeWords, zone} from "./dom.js";
import {fleet, forget} from "./fleet.js";
import {object} from "./object.js";
import {whatIf} from "./what-if.js";

const main = document.getElementById("main");
const bannerNode = document.getElementById("banner");
let leave = () => {};
let trouble = "";
let notice = "";

function tell() {
  const text = trouble || notice;
  bannerNode.textContent = text;
  bannerNode.hidden = !text;
  bannerNode.classList.toggle("bad", Boolean(trouble));
}

const tools = {
  banner(text) {
    notice = text;
    trouble = "";
    tell();
  },
  // Whether the view should poll again.
  onError(error) {
    if (error instanceof SignInNeeded) {
      signIn();
      return false;
    }
    trouble = error.message || "this cannot be shown";
    tell();
    return true;
  },
};

function route() {
  leave();
  leave = () => {};
  tools.banner("");
  const [view, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let names;
  try {
    names = rest.map(decodeURIComponent);
  } catch {
    names = [];
  }
  const of = view || "fleet";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === of) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.view = of;
  scrollTo(0, 0);
  if (of === "object" && names.length === 2) {
    document.title = `${names[1]} · cronhpa`;
    leave = object(main, ...names, tools);
  } else if (of === "what-if" && names.length === 2) {
    document.title = `What if: ${names[1]} · cronhpa`;
    leave = whatIf(main, ...names, tools);
  } else if (of === "calendar") {
    document.title = "Calendar · cronhpa";
    leave = calendar(main, tools);
  } else {
    document.title = "Fleet · cronhpa";
    leave = fleet(main, tools);
  }
}

function signIn(why = "") {
  leave();
  leave = () => {};
  keepToken("");
  forget();
  document.getElementById("leave").hidden = true;
  document.getElementById("who").textContent = "";
  tools.banner("");
  const wrong = el("p.wrong", {role: "alert"}, why);
  const token = el("input", {type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true});
  const form = el("form.sign-in", {}, el("h1", {}, "Sign in"),
    document.documentElement.dataset.auth === "proxy"
      ? el("p", {}, "This page expects you to come through the proxy in front of it. A token works, too.")
      : el("p", {}, "The page shows you the objects that your token may get, and keeps the token in this tab alone."),
    el("label", {for: "token"}, "Bearer token"), token, el("button.primary", {type: "submit"}, "Sign in"), wrong,
    el("p.faint", {}, "This command opens the page signed in:"), el("pre", {tabindex: 0}, "kubectl cronhpa page"),
    el("p.faint", {}, "Or paste a token of a ServiceAccount that is good for this page and nothing else:"),
    el("pre", {tabindex: 0}, wholeWords("kubectl create token NAME -n NAMESPACE --audience cronhpa.io --duration 1h")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    keepToken(token.value.trim());
    try {
      await session();
      route();
    } catch (error) {
      keepToken("");
      wrong.textContent = error instanceof SignInNeeded ? "The API server does not know this token." : error.message;
      token.focus();
    }
  });
  replace(main, form);
  document.title = "Sign in · cronhpa";
  token.focus();
}

async function session() {
  const told = await ask("session");
  document.getElementById("who").textContent = told.user;
  document.getElementById("leave").hidden = !hasToken();
}

// --- theme ------------------------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
const themeButton = document.getElementById("theme");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function showTheme() {
  themeButton.textContent = isDark() ? "☀" : "☾";
  themeButton.setAttribute("aria-label", isDark() ? "Light theme" : "Dark theme");
  dispatchEvent(new Event("themechange"));
}

function turnTheme() {
  const wanted = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = wanted;
  try {
    localStorage.setItem("cronhpa-theme", wanted);
  } catch {
    // The choice is not stored, then, and ends with this page.
  }
  showTheme();
}

themeButton.addEventListener("click", turnTheme);
dark.addEventListener("change", showTheme);
showTheme();

// --- the time zone ----------------------------------------------------------------------------------------------

const zoneButton = document.getElementById("zone");

function showZone() {
  replace(zoneButton, el("span.only-wide", {}, "Times in "), el("span.only-wide", {}, zone()),
    el("span.only-phone", {}, zone().replace(/^.*\//, "").replaceAll("_", " ")));
  zoneButton.setAttribute("aria-label", `Times in ${zone()}`);
}

function changeZone() {
  turnZone();
  showZone();
  forget();
  route();
}

zoneButton.addEventListener("click", changeZone);
showZone();

// --- keys -------------------------------------------------------------------------------------------------------

const help = document.getElementById("help");
document.getElementById("keys").addEventListener("click", () => help.showModal());
document.getElementById("leave").addEventListener("click", () => signIn());

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key === "Escape") {
    if (isTyping) event.target.blur();
    else if (location.hash.length > 2) location.hash = "#/";
    return;
  }
  if (isTyping) return;
  const act = {
    "/": () => document.getElementById("search")?.focus(),
    "?": () => help.showModal(),
    d: turnTheme,
    z: changeZone,
    f: () => { location.hash = "#/"; },
    c: () => { location.hash = "#/calendar"; },
  }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

addEventListener("hashchange", () => {
  route();
  main.focus({preventScroll: true});
});

// The address may hold a code of `kubectl cronhpa page`. It is removed before anything else, and is good once.
async function begin() {
  const code = /^#sign-in=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, "", `${location.pathname}#/`);
    try {
      keepToken(await handedOver(code));
    } catch {
      if (!hasToken()) {
        signIn("The code in the address was used already, or is too old. Run kubectl cronhpa page again.");
        return;
      }
    }
  }
  try {
    await session();
  } catch (error) {
    if (error instanceof SignInNeeded) {
      signIn();
      return;
    }
    route();
    tools.onError(error);
    return;
  }
  route();
}

begin();
