"use strict";
// The frame of every page: theme, keys, and tables of an export that sort and filter themselves.
(() => {
  const root = document.documentElement;
  const live = root.dataset.live === "1";

  // A request that a newer one replaces is no error. htmx would log its end as two.
  if (live && window.htmx) htmx.logger = (element, name, detail) => {
    const ended = name === "htmx:sendAbort" || (name === "htmx:afterRequest" && detail.xhr && !detail.xhr.status);
    if (ended) delete detail.error;
  };
  // htmx makes HTML of what the server sent; nothing may become a script or the address of one.
  if (live && window.trustedTypes) trustedTypes.createPolicy("default", { createHTML: (text) => text });

  const THEMES = ["system", "light", "dark"];
  const remember = (name, value) => { try { localStorage.setItem(name, value); } catch { /* storage is off */ } };
  const recall = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
  const setTheme = (theme) => {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = `Theme: ${theme}`;
  };
  const theme = () => (THEMES.includes(recall("snellen-theme")) ? recall("snellen-theme") : "system");
  setTheme(theme());

  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  const current = () => document.querySelector("[data-row][data-current]");
  const moveTo = (row) => {
    if (!row) return;
    const before = current();
    if (before && before !== row) before.removeAttribute("data-current");
    row.setAttribute("data-current", "");
    row.scrollIntoView({ block: "nearest" });
    const target = row.querySelector("a[data-open], a, button, input");
    if (target) target.focus({ preventScroll: true });
  };
  const step = (by) => {
    const all = rows();
    const place = all.indexOf(current());
    moveTo(all[place < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, place + by))]);
  };
  const openRow = () => current()?.querySelector("a[data-open]")?.click();
  const tick = () => current()?.querySelector("input[type=checkbox]")?.click();
  const search = () => { const field = document.querySelector("[data-search]"); field?.focus(); field?.select?.(); };

  const openHelp = () => {
    const list = document.querySelector("#keys dl");
    const seen = new Set(["?"]);
    list.querySelectorAll("[data-made]").forEach((entry) => entry.remove());
    for (const element of document.querySelectorAll("[data-key][data-key-help]")) {
      if (seen.has(element.dataset.key) || element.offsetParent === null) continue;
      seen.add(element.dataset.key);
      const entry = document.createElement("div");
      entry.dataset.made = "";
      const key = document.createElement("kbd");
      key.textContent = element.dataset.key;
      const dt = document.createElement("dt");
      dt.append(key);
      const dd = document.createElement("dd");
      dd.textContent = element.dataset.keyHelp;
      entry.append(dt, dd);
      list.append(entry);
    }
    document.getElementById("keys").showModal();
  };

  const typing = (target) => target.closest?.("textarea, select, [contenteditable], input:not([type=checkbox]):not([type=radio])");
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape" && typing(event.target)) { event.target.blur(); return; }
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    const simple = { j: () => step(1), k: () => step(-1), x: tick, "/": search };
    if (event.key === "Enter" && !event.target.closest?.("a, button, summary, input") && current()) { openRow(); event.preventDefault(); return; }
    if (simple[event.key]) { simple[event.key](); event.preventDefault(); return; }
    const button = [...document.querySelectorAll("[data-key]")].find(
      (element) => element.dataset.key === event.key && element.offsetParent !== null && !element.disabled,
    );
    if (button) { button.click(); event.preventDefault(); }
  });
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.("[data-row]");
    if (row && row !== current()) {
      current()?.removeAttribute("data-current");
      row.setAttribute("data-current", "");
    }
  });

  const sortTable = (button) => {
    const head = button.closest("th");
    const table = head.closest("table");
    const place = [...head.parentElement.children].indexOf(head);
    const down = head.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th[aria-sort]").forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const value = (row) => row.children[place]?.dataset.value ?? row.children[place]?.textContent.trim() ?? "";
    const compare = (a, b) => {
      const [left, right] = [value(a), value(b)];
      if (left === "" || right === "") return (left === "") - (right === "");
      const sign = down ? -1 : 1;
      return sign * (isNaN(left) || isNaN(right) ? left.localeCompare(right) : Number(left) - Number(right));
    };
    for (const body of table.tBodies) body.append(...[...body.rows].sort(compare));
  };
  const filterRows = (field) => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll("[data-row]")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const help = document.getElementById("help");
    setTheme(theme());
    button.hidden = help.hidden = false;
    button.addEventListener("click", () => {
      const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
      remember("snellen-theme", next);
      setTheme(next);
    });
    help.addEventListener("click", openHelp);
    if (!live) {
      for (const sort of document.querySelectorAll("button[data-sort]")) sort.addEventListener("click", () => sortTable(sort));
      for (const field of document.querySelectorAll('[data-search=""]')) field.addEventListener("input", () => filterRows(field));
    }
  });
})();
