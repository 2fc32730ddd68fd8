// What is wrong with how the page is laid out at the window's width, in a line for each
// fault: an action that is out of reach, text that is cut or sticks out, a broken word.
(() => {
  const wrong = new Set();
  const dialog = document.querySelector("dialog[open]");
  const root = dialog || document.body;
  const edge = document.documentElement.clientWidth;
  const words = (s) => (s || "").replace(/\s+/g, " ").trim().slice(0, 40);
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const spoken = (e) => { // for screen readers, or drawn
    for (; e && e !== document.body; e = e.parentElement) {
      if (e.matches(".skip, svg") || getComputedStyle(e).clipPath !== "none") return true;
    }
    return false;
  };
  const slides = (e) => { // is in something that is meant to be moved sideways
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

  // Every action lies inside its card and the window, and a click at its centre meets it.
  const called = (e) => `${e.localName} "${words(e.getAttribute("aria-label") || e.innerText || e.name)}"`;
  const actions = (from) => [...from.querySelectorAll("a[href], button, summary, input:not([type=hidden]), select, textarea")]
    .filter((e) => seen(e) && !spoken(e));
  const reach = (e) => {
    const r = e.getClientRects()[0];
    if (r.left < -1 || r.right > edge + 1) wrong.add(`${called(e)} is out of the window`);
    for (let up = e.parentElement; up && up !== document.body; up = up.parentElement) {
      const card = up.matches(".card, dialog, .menu > .list") || getComputedStyle(up).overflowX !== "visible";
      if (card && !within(r, up)) wrong.add(`${called(e)} sticks out of its ${up.className || up.localName}`);
    }
    e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const now = e.getClientRects()[0];
    const hit = document.elementFromPoint(now.left + now.width / 2, now.top + now.height / 2);
    const meets = hit && (e.contains(hit) || (e.labels && [...e.labels].some((l) => l.contains(hit))));
    if (!meets) wrong.add(`${called(e)} is not clickable: there is ${hit ? hit.localName + "." + hit.className : "nothing"}`);
  };
  for (const details of root.querySelectorAll("details:not(.menu)")) details.open = true;
  actions(root).forEach(reach);
  for (const menu of root.querySelectorAll("details.menu")) {
    if (!seen(menu)) continue;
    menu.open = true;
    actions(menu).forEach(reach);
    menu.open = false;
  }

  // Nothing is wider than the window, and nothing is cut; what is typed may be longer than its field.
  if (document.documentElement.scrollWidth > edge) wrong.add(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const e of root.querySelectorAll("*")) {
    if (e.localName !== "input" && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && /hidden|clip/.test(getComputedStyle(e).overflowX) && seen(e) && !spoken(e)) {
      wrong.add(`${e.localName}.${e.className} cuts "${words(e.innerText)}"`);
    }
  }

  // Every word stands on one line, inside its box. Where it has a hyphen or a slash a
  // line may end, in code besides where a part of an address does; what is longer than
  // any word breaks anywhere, and so does a secret, which is random.
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

  // What stands in one column begins at one edge: tabs above the fields that they are about.
  for (const card of root.querySelectorAll(".card")) {
    const [tab, label] = [card.querySelector(":scope > .tabs a"), card.querySelector(":scope > form label")];
    if (!tab || !label) continue;
    range.selectNodeContents(tab);
    const aside = Math.abs(range.getBoundingClientRect().left - label.getBoundingClientRect().left);
    if (aside > 2) wrong.add(`the tabs stand ${aside} px beside the fields`);
  }
  scrollTo(0, 0);
  return [...wrong];
})()
