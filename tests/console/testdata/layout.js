// Returns the layout faults at the width of the window, one line for each: unreachable actions, cut
// or overflowing text, and broken words.
(() => {
  const wrong = new Set();
  const dialog = document.querySelector("dialog[open]");
  const root = dialog || document.body;
  const edge = document.documentElement.clientWidth;
  const words = (s) => (s || "").replace(/\s+/g, " ").trim().slice(0, 40);
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const spoken = (e) => { // only for screen readers, or in an SVG
    for (; e && e !== document.body; e = e.parentElement) {
      if (e.matches(".skip, svg") || getComputedStyle(e).clipPath !== "none") return true;
    }
    return false;
  };
  const slides = (e) => { // is in a container that scrolls horizontally
    for (; e && e !== document.body; e = e.parentElement) {
      if (/auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth) return e.tabIndex >= 0;
    }
    return false;
  };
  const block = (e) => {
    while (getComputedStyle(e).display.startsWith("inline")) e = e.parentElement;
    return e;
  };
  const within = (r, e) => {
    const box = e.getBoundingClientRect();
    return r.left >= box.left - 1 && r.right <= box.right + 1;
  };

  // Every action is inside its card and the window, and a click at its center reaches it.
  const called = (e) => `${e.localName} "${words(e.getAttribute("aria-label") || e.innerText || e.name)}"`;
  const actions = (from) => [...from.querySelectorAll("a[href], button, summary, input:not([type=hidden]), select, textarea")]
    .filter((e) => seen(e) && !spoken(e));
  const reach = (e) => {
    const r = e.getClientRects()[0];
    if (r.left < -1 || r.right > edge + 1) wrong.add(`${called(e)} is outside the window`);
    for (let up = e.parentElement; up && up !== document.body; up = up.parentElement) {
      const card = up.matches(".card, dialog, .menu > .list") || getComputedStyle(up).overflowX !== "visible";
      if (card && !within(r, up)) wrong.add(`${called(e)} sticks out of its ${up.className || up.localName}`);
    }
    e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const now = e.getClientRects()[0];
    const hit = document.elementFromPoint(now.left + now.width / 2, now.top + now.height / 2);
    const meets = hit && (e.contains(hit) || (e.labels && [...e.labels].some((l) => l.contains(hit))));
    if (!meets) wrong.add(`${called(e)} is not clickable: covered by ${hit ? hit.localName + "." + hit.className : "nothing"}`);
  };
  for (const details of root.querySelectorAll("details:not(.menu)")) details.open = true;
  actions(root).forEach(reach);
  for (const menu of root.querySelectorAll("details.menu")) {
    if (!seen(menu)) continue;
    menu.open = true;
    actions(menu).forEach(reach);
    menu.open = false;
  }

  // Nothing is wider than the window, and nothing except the values of inputs is cut.
  if (document.documentElement.scrollWidth > edge) wrong.add(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const e of root.querySelectorAll("*")) {
    if (e.localName !== "input" && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && /hidden|clip/.test(getComputedStyle(e).overflowX) && seen(e) && !spoken(e)) {
      wrong.add(`${e.localName}.${e.className} cuts "${words(e.innerText)}"`);
    }
  }

  // Every word is on one line, inside its box. Lines may break at hyphens and slashes, and in code
  // also between the parts of a URL. Very long words and secrets may break anywhere.
  const longest = 20;
  const secret = /^\s*[\w-]{40,}\s*$/;
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const e = text.parentElement;
    if (!text.data.trim() || !seen(e) || spoken(e) || e.matches("option, script, noscript")) continue;
    const word = e.closest("code, pre, bdi, .token") ? /[^\s\-/?–—…:@_]+/g : /[^\s\-/?–—…]+/g;
    for (const found of text.data.matchAll(word)) {
      range.setStart(text, found.index);
      range.setEnd(text, found.index + found[0].length);
      const rects = [...range.getClientRects()].filter((r) => r.width > 0);
      const lines = new Set(rects.map((r) => Math.round(r.top)));
      if (lines.size > 1 && found[0].length <= longest && !secret.test(text.data)) wrong.add(`"${found[0]}" is broken in "${words(text.data)}"`);
      if (rects.some((r) => !within(r, block(e))) && !slides(e)) wrong.add(`"${words(found[0])}" sticks out of its ${block(e).localName}.${block(e).className}`);
    }
  }

  // Tabs and the fields below them have the same left edge.
  for (const card of root.querySelectorAll(".card")) {
    const [tab, label] = [card.querySelector(":scope > .tabs a"), card.querySelector(":scope > form label")];
    if (!tab || !label) continue;
    range.selectNodeContents(tab);
    const aside = Math.abs(range.getBoundingClientRect().left - label.getBoundingClientRect().left);
    if (aside > 2) wrong.add(`the tabs are ${aside} px away from the left edge of the fields`);
  }
  scrollTo(0, 0);
  return [...wrong];
})()
