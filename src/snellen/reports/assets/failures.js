"use strict";
(() => {
  const named = (id) => document.getElementById(id);
  const rows = [...named("rows").rows];
  const about = JSON.parse(named("data").textContent);
  const filters = { label: named("by-label"), run: named("by-run"), verdict: named("by-verdict") };
  const review = named("by-review");
  const store = "snellen failures " + location.pathname;
  const decided = new Map();

  function show() {
    let shown = 0;
    for (const row of rows) {
      const fits =
        (!filters.label.value || row.dataset.labelOf === filters.label.value) &&
        (!filters.run.value || row.dataset.run === filters.run.value) &&
        (!filters.verdict.value || row.dataset.verdict === filters.verdict.value) &&
        (!review.checked || "review" in row.dataset);
      row.hidden = !fits;
      shown += fits;
    }
    named("count").textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} answers`;
  }

  // The address says which answers are shown, so that a bar of the plot can lead to them.
  function fromAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (![...wanted.keys()].some((key) => key in filters)) return;
    for (const [key, select] of Object.entries(filters)) {
      const value = wanted.get(key) || "";
      select.value = [...select.options].some((one) => one.value === value) ? value : "";
    }
    show();
    named("answers").scrollIntoView();
  }

  function tell() {
    const count = decided.size;
    named("save").disabled = count === 0 || !named("reviewer").value.trim();
    named("decided").textContent = count ? `${count} decided${named("reviewer").value.trim() ? "" : "; give your name to save"}.` : "No decisions yet.";
  }

  function keep() {
    try {
      localStorage.setItem(store, JSON.stringify({ by: named("reviewer").value, said: [...decided] }));
    } catch { /* Without storage the decisions live as long as the page. */ }
    tell();
  }

  rows.forEach((row, number) => {
    const select = row.querySelector("select");
    if (!select) return;
    const why = row.querySelector("input");
    const take = () => {
      why.hidden = !select.value;
      if (select.value) decided.set(JSON.stringify(about[number]), [select.value, why.value]);
      else decided.delete(JSON.stringify(about[number]));
      keep();
    };
    select.addEventListener("change", take);
    why.addEventListener("input", take);
  });

  function restore() {
    let held = null;
    try {
      held = JSON.parse(localStorage.getItem(store));
    } catch { return; }
    if (!held || !Array.isArray(held.said)) return;
    named("reviewer").value = String(held.by || "").slice(0, 80);
    const places = new Map(about.map((one, number) => [JSON.stringify(one), number]));
    for (const [which, said] of held.said) {
      const row = rows[places.get(which)];
      const select = row && row.querySelector("select");
      if (!select || !Array.isArray(said)) continue;
      select.value = said[0];
      const why = row.querySelector("input");
      why.value = said[1] || "";
      why.hidden = !select.value;
      if (select.value) decided.set(which, [select.value, why.value]);
    }
  }

  named("save").addEventListener("click", () => {
    const by = named("reviewer").value.trim();
    const lines = [...decided].map(([which, [label, note]]) => {
      const [run, sample_id, repeat] = JSON.parse(which);
      return JSON.stringify({ run, sample_id, repeat, label, by, note }) + "\n";
    });
    const address = URL.createObjectURL(new Blob(lines, { type: "application/x-ndjson" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = "decisions.jsonl";
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  });
  named("reviewer").addEventListener("input", keep);
  for (const select of Object.values(filters)) select.addEventListener("change", show);
  review.addEventListener("change", show);
  named("clear").addEventListener("click", () => {
    for (const select of Object.values(filters)) select.value = "";
    review.checked = false;
    show();
  });
  window.addEventListener("hashchange", fromAddress);
  named("filters").addEventListener("submit", (event) => event.preventDefault());
  named("filters").hidden = false;
  for (const cell of document.querySelectorAll(".decide")) cell.hidden = false;
  restore();
  tell();
  show();
  fromAddress();
})();
