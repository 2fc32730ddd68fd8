// Filters the contents while the user types, and opens the page of a link to an entry that was on
// the only page of earlier releases.
"use strict";

const field = document.getElementById("q");
const groups = [...document.querySelectorAll("nav details")];
const opened = new Map(groups.map((group) => [group, group.open]));

function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let all = 0;
  for (const group of groups) {
    let found = 0;
    for (const item of group.querySelectorAll("li")) {
      const text = item.dataset.words || "";
      const hit = words.every((word) => text.includes(word));
      item.hidden = !hit;
      found += hit && text ? 1 : 0;
    }
    group.hidden = words.length > 0 && found === 0;
    group.open = words.length > 0 ? found > 0 : opened.get(group);
    all += found;
  }
  const result = all > 0 ? `Matching calls and events: ${all}.` : "No matching calls and events. Press Enter to search the problems too.";
  document.getElementById("matches").textContent = words.length > 0 ? result : "";
}

field.addEventListener("input", filter);

function forward() {
  const entry = location.hash && document.getElementById(location.hash.slice(1));
  const link = entry && entry.matches(".results > li") && entry.querySelector("a");
  if (link) location.replace(link.href);
}

addEventListener("hashchange", forward);
forward();
