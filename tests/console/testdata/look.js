// Functions that the tests call in a page. They find elements by their visible texts.
(() => {
  const words = (s) => (s || "").replace(/\s+/g, " ").trim();
  const seen = (e) => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
  const dialog = () => document.querySelector("dialog[open]"); // nothing outside it can be clicked
  const all = (selector) => [...(dialog() || document).querySelectorAll(selector)].filter(seen);
  const at = (e) => {
    if (!e) return null;
    e.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const r = e.getClientRects()[0];
    return { X: r.left + r.width / 2, Y: r.top + r.height / 2 };
  };
  const control = (label) => {
    const labels = all("label").filter((l) => l.control && seen(l.control));
    const found = labels.find((l) => words(l.innerText) === label) ||
      labels.find((l) => words(l.innerText) === label + " optional") ||
      labels.find((l) => words(l.innerText).startsWith(label));
    return found ? found.control : null;
  };
  const set = (e, value) => {
    e.value = value;
    e.dispatchEvent(new Event("input", { bubbles: true }));
    e.dispatchEvent(new Event("change", { bubbles: true }));
    return e.value === value;
  };
  return {
    clickable: (text) => {
      const found = all("a[href], button, summary").filter((e) => !e.disabled);
      return at(found.find((e) => (e.getAttribute("aria-label") || words(e.innerText)) === text));
    },
    first: (selector) => at(all(selector)[0]),
    control: (label) => at(control(label)),
    typed: (label) => { const e = control(label); return e ? e.value : ""; },
    emptied: (label) => { const e = control(label); e.focus(); return set(e, ""); },
    set: (label, value) => set(control(label), value),
    unchecked: () => {
      for (const form of document.forms) form.noValidate = true;
      for (const e of document.querySelectorAll("input[type=number]")) e.type = "text";
      return true;
    },
    chosen: (label, text) => {
      const e = control(label);
      const option = [...e.options].find((o) => words(o.text) === text || o.value === text);
      return option ? set(e, option.value) : false;
    },
    dialog: () => { const d = dialog(); return d ? words(d.innerText) : ""; },
    focused: () => { const e = document.activeElement; return e ? words(e.innerText) || e.id : ""; },
    shown: () => words(document.body.innerText),
    textOf: (selector) => document.querySelector(selector).textContent,
    source: () => document.documentElement.outerHTML,
    path: () => location.pathname + location.search,
    width: () => document.documentElement.scrollWidth,
    mark: () => { document.documentElement.setAttribute("data-left", String(Boolean(dialog()))); return true; },
    // Another page is loaded, or a dialog has opened or closed.
    arrived: () => document.readyState === "complete" && document.documentElement.getAttribute("data-left") !== String(Boolean(dialog())),
  };
})()
