"use strict";
// The table of all runs: a button in each heading sorts it. Complete and incomplete runs are sorted apart.
(() => {
  const table = document.querySelector("table.runs");
  if (!table) return;
  const headings = [...table.querySelectorAll("thead th")];
  const first = new Map([...table.tBodies].map((body) => [body, [...body.rows]]));
  const rising = new Set(["run", "benchmark", "settings"]);
  const wanted = () => new URLSearchParams(location.hash.slice(1)).get("runs") || "";

  function value(row, at) {
    const text = row.cells[at].dataset.key;
    const number = Number(text);
    return text === "" ? null : Number.isNaN(number) ? text : number;
  }

  function compare(a, b) {
    if (a === null || b === null) return 0;
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function draw() {
    const order = wanted(), falling = order.startsWith("-"), key = order.replace(/^-/, "");
    const at = headings.findIndex((heading) => heading.dataset.key === key);
    for (const [body, rows] of first) {
      const sorted = at < 0 ? rows : [...rows].sort((one, other) => {
        const a = value(one, at), b = value(other, at);
        if ((a === null) !== (b === null)) return a === null ? 1 : -1;
        return falling ? compare(b, a) : compare(a, b);
      });
      body.append(...sorted);
    }
    headings.forEach((heading, place) => {
      if (place === at) heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
  }

  // From the natural order to its opposite, and back to the order of the page.
  function next(key) {
    const orders = rising.has(key) ? [key, `-${key}`] : [`-${key}`, key];
    return orders[orders.indexOf(wanted()) + 1] || "";
  }

  for (const heading of headings) {
    const key = heading.dataset.key;
    if (key === undefined) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => {
      const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""), order = next(key);
      if (order) state.set("runs", order); else state.delete("runs");
      history.replaceState(null, "", String(state) ? `#${state}` : "#runs");
      draw();
    });
    heading.append(button);
  }

  // A link to a run's details opens them.
  function unfold() {
    const place = /^#run-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!place) return;
    place.closest("details").open = true;
    place.scrollIntoView();
  }

  window.addEventListener("hashchange", () => { draw(); unfold(); });
  draw();
  unfold();
})();
