// The console works without this file. It copies, and says that it has; it keeps
// what a part of a page that refreshes itself would take away: the open menu closed
// by Escape, and words for who listens instead of looking.
"use strict";

document.documentElement.classList.add("scripted");

const said = document.getElementById("said");

function say(text) {
  if (said) {
    said.textContent = "";
    said.textContent = text;
  }
}

// Copies the text of the element that a button names.
async function copy(button) {
  const from = document.getElementById(button.dataset.copy);
  if (!from) return;
  const label = button.dataset.label || button.textContent;
  button.dataset.label = label;
  try {
    await navigator.clipboard.writeText(from.textContent);
    button.textContent = "Copied";
    say("Copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(from);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    button.textContent = "Selected: press Ctrl+C";
    say("Selected. Press Control C to copy.");
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

document.addEventListener("click", (event) => {
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

// A form is sent once, however often its button is pressed.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  if (event.target.dataset.sent) {
    event.preventDefault();
    return;
  }
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) delete form.dataset.sent;
});
