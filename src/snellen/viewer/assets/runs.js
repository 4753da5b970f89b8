// The runs page: buttons that need a selection, and a list that is swapped without losing the reader's place.
(() => {
  const picked = new Set();
  const apply = () => {
    for (const button of document.querySelectorAll("#chosen [data-needs]")) {
      button.disabled = picked.size < Number(button.dataset.needs);
    }
  };
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.name !== "runs" || box.type !== "checkbox") return;
    if (box.checked) picked.add(box.value);
    else picked.delete(box.value);
    apply();
  });
  let focused = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id !== "runs") return;
    const row = document.activeElement?.closest?.("[data-row]");
    focused = { current: document.querySelector("[data-row][data-current]")?.dataset.id, id: row?.dataset.id, tag: document.activeElement?.tagName };
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const box of document.querySelectorAll("input[name=runs]")) box.checked = picked.has(box.value);
    const rows = [...document.querySelectorAll("[data-row]")];
    rows.find((row) => row.dataset.id === focused?.current)?.setAttribute("data-current", "");
    if (focused?.id) rows.find((row) => row.dataset.id === focused.id)?.querySelector(focused.tag)?.focus({ preventScroll: true });
  });
  document.addEventListener("DOMContentLoaded", () => {
    for (const box of document.querySelectorAll("input[name=runs]:checked")) picked.add(box.value);
    apply();
  });
})();
