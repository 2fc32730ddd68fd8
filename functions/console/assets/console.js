// The console works without this file. It copies, and says so to who listens instead
// of looking; it closes menus by Escape or a click beside them; and it sends a form
// once, however often its button is pressed.
"use strict";

document.documentElement.classList.add("scripted");

const said = document.getElementById("said");

function say(text) {
  if (said) {
    said.textContent = "";
    said.textContent = text;
  }
}

// Shows a word on a button for a while, and then what was there before.
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

// Copies the text of the element that a button names.
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
