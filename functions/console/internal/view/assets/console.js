// Optional behavior of the console: copy buttons, menus that close on Escape or a click outside,
// confirmations in a dialog, forms that are submitted only once, values of charts, and links back to
// a list that restore its filters.
"use strict";

document.documentElement.classList.add("scripted");

const said = document.getElementById("said");

function say(text) {
  if (said) {
    said.textContent = "";
    said.textContent = text;
  }
}

// Shows a word on a button for two seconds.
function tell(button, word) {
  const label = button.label || [...button.childNodes];
  button.label = label;
  button.replaceChildren(word);
  clearTimeout(button.timer);
  button.timer = setTimeout(() => {
    button.replaceChildren(...label);
    delete button.label;
    say("");
  }, 2000);
}

// Copies the text of the element in the data-copy attribute of a button.
async function copy(button) {
  const from = document.getElementById(button.dataset.copy);
  if (!from) return;
  try {
    await navigator.clipboard.writeText(from.textContent);
    tell(button, "Copied");
    say("Copied");
  } catch {
    getSelection().selectAllChildren(from);
    tell(button, "Selected: press Ctrl+C");
    say("Selected. Press Control C to copy.");
  }
}

// Opens the confirmation page of a data-dialog link or form in a dialog. Any other response, such as
// an error or a redirect to the sign-in page, opens as a page.
let asking = false;

async function ask(address) {
  if (asking) return;
  asking = true;
  const question = await questionAt(address).catch(() => null);
  asking = false;
  if (question) over(question, address);
  else location.assign(address);
}

async function questionAt(address) {
  const answer = await fetch(address, { redirect: "manual", signal: AbortSignal.timeout(5000) });
  if (!answer.ok) return null;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return page.querySelector("[data-question]");
}

// Shows a confirmation in a dialog. The focus is on the name to enter, or on Cancel.
function over(question, address) {
  for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "question");
  dialog.append(document.importNode(question, true));
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener(address).focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("input:not([type=hidden]), [data-close]").focus();
}

// Returns the element that opened the dialog of a URL, or its menu. The part of the page with the
// element may have been replaced in the meantime.
function opener(address) {
  const found = [...document.querySelectorAll("[data-dialog]")].find((e) => addressOf(e) === address);
  const menu = found && found.closest("details.menu");
  if (menu) return menu.querySelector("summary");
  return (found && (found.querySelector("button") || found)) || document.getElementById("main");
}

function addressOf(asker) {
  return asker.href || asker.action + "?" + new URLSearchParams(new FormData(asker));
}

document.addEventListener("click", (event) => {
  const asker = event.target.closest("a[data-dialog]");
  if (asker && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey) {
    event.preventDefault();
    ask(addressOf(asker));
  }
  const out = event.target.closest("dialog [data-close]");
  if (out) {
    event.preventDefault();
    out.closest("dialog").close();
  }
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// Submits a form only once.
document.addEventListener("submit", (event) => {
  if (event.target.matches("[data-dialog]")) {
    event.preventDefault();
    ask(addressOf(event.target));
  }
  if (event.defaultPrevented || event.target.method !== "post") return;
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
  for (const dialog of document.querySelectorAll("dialog")) dialog.close(); // the user navigated back
});

// Shows the value of a chart's bar below the chart. on highlights the bar.
function point(figure, index, on) {
  const hints = [...figure.querySelectorAll(".chart-hint")];
  const value = figure.querySelector(".chart-value");
  hints.forEach((hint, i) => hint.classList.toggle("on", on && i === index));
  value.textContent = hints[index].textContent;
  return value;
}

function selected(figure) {
  return Number(figure.querySelector(".chart-value").getAttribute("aria-valuenow"));
}

// The keys of a slider move the selected bar.
function moved(key, index, last) {
  const to = {
    ArrowLeft: index - 1, ArrowDown: index - 1, ArrowRight: index + 1, ArrowUp: index + 1,
    PageDown: index - 7, PageUp: index + 7, Home: 0, End: last,
  }[key];
  return to === undefined ? undefined : Math.min(Math.max(to, 0), last);
}

document.addEventListener("keydown", (event) => {
  if (!event.target.matches(".chart-value") || event.altKey || event.ctrlKey || event.metaKey) return;
  const figure = event.target.closest("[data-chart]");
  const to = moved(event.key, selected(figure), Number(event.target.getAttribute("aria-valuemax")));
  if (to === undefined) return;
  event.preventDefault();
  const value = point(figure, to, true);
  value.setAttribute("aria-valuenow", to);
  value.setAttribute("aria-valuetext", value.textContent);
});

for (const [kind, on] of [["focusin", true], ["focusout", false], ["mouseover", true], ["mouseout", false]]) {
  document.addEventListener(kind, (event) => {
    const figure = event.target.closest("[data-chart]");
    if (!figure) return;
    if (event.target.matches(".chart-value")) point(figure, selected(figure), on);
    if (!event.target.matches(".chart-hint")) return;
    const all = [...figure.querySelectorAll(".chart-hint")];
    point(figure, on ? all.indexOf(event.target) : selected(figure), on || figure.contains(document.activeElement));
  });
}

// Remembers the query of a list in this window, so that links back to it restore its filters and
// page. The next user of the window starts without them.
const remembered = "list ";

if (document.querySelector("[data-list]")) {
  const query = new URLSearchParams(location.search);
  query.delete("select"); // no list opens with selected items
  sessionStorage.setItem(remembered + location.pathname, query);
}
if (document.querySelector(".signin")) sessionStorage.clear();
for (const link of document.querySelectorAll("a[data-back]")) {
  link.search = sessionStorage.getItem(remembered + link.pathname) || link.search;
}
