// What the reader opened or closed at the side stays so when the rows are fetched or drawn anew; narrow windows begin closed.
const keepOpen = (() => {
  const chosen = new Map();
  const narrow = matchMedia("(max-width: 1100px)");
  const name = (details) => details.dataset.facet ?? details.className;
  document.addEventListener("click", (event) => {
    const details = event.target.closest?.(".side summary")?.parentElement;
    if (details) chosen.set(name(details), !details.open);
  });
  return () => {
    for (const details of document.querySelectorAll(".side details")) {
      if (chosen.has(name(details))) details.open = chosen.get(name(details));
      else if (narrow.matches) details.open = false;
    }
  };
})();

// The samples page. On the server htmx fetches the rows; here requests are tidied and a refresh never moves the current row.
(() => {
  if (document.documentElement.dataset.live !== "1") return;
  document.addEventListener("DOMContentLoaded", () => {
    keepOpen();
    document.querySelector("#samples-form .apply")?.setAttribute("hidden", "");
  });
  document.addEventListener("htmx:afterSettle", keepOpen);

  // The link of a facet was drawn with the rows; a field that changed since then counts too.
  function withTypedFields(path) {
    const address = new URL(path, location.href);
    const form = new FormData(document.getElementById("samples-form"));
    for (const name of ["text", "within", "pattern", "profile", "sort"]) {
      if (!form.has(name)) continue;
      if (form.get(name)) address.searchParams.set(name, form.get(name));
      else address.searchParams.delete(name);
    }
    return address.pathname + address.search;
  }

  // Empty fields, and the choice of all runs, stay out of the address.
  document.addEventListener("htmx:configRequest", (event) => {
    const { parameters, elt } = event.detail;
    if (elt.matches('a[id^="facet-"]')) event.detail.path = withTypedFields(event.detail.path);
    if (elt.id !== "samples-form") return;
    for (const name of ["text", "within", "pattern", "profile", "sort"]) if (!parameters[name]) delete parameters[name];
    const choices = [...document.querySelectorAll("#samples-result input[name=runs]")];
    if (!parameters.pattern && choices.every((choice) => choice.checked === choice.hasAttribute("data-default"))) delete parameters.runs;
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("#samples-result input[name=runs]")) document.getElementById("samples-form").requestSubmit();
  });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt.id !== "samples-result") return;
    const busy = document.hidden || document.querySelector("#samples-result [data-current], #samples-result :focus, dialog[open]");
    if (busy || !getSelection().isCollapsed) event.preventDefault();
  });
})();

// In an export the page has all samples as data, and the address behind "#" says which are shown.
// Texts of runs only ever become text nodes.
(() => {
  if (document.documentElement.dataset.live === "1") return;
  const PAGE = 50, TAGS = 3, FACET_VALUES = 60;
  let data, state;

  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");
  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) if (child !== null && child !== undefined && child !== "") node.append(child);
    return node;
  }

  // Verdict patterns, as snellen.viewer.index.sample_page reads them.
  const SYNONYMS = { correct: "right", incorrect: "wrong", unparsed: "unparseable", invalid: "unparseable", error: "failed", absent: "missing", unjudged: "unscored" };
  const TOKEN = /\s*(?:"([^"]*)"|'([^']*)'|([(),/])|([^\s(),/"']+))/y;
  function parsePattern(text) {
    const tokens = [], trimmed = text.trimEnd();
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < trimmed.length) {
      const match = TOKEN.exec(trimmed);
      if (!match) throw new Error("a quotation mark without its partner");
      const quoted = match[1] ?? match[2];
      tokens.push(quoted === undefined ? { text: match[3] ?? match[4], word: (match[3] ?? match[4]).toLowerCase() } : { text: quoted, word: null });
    }
    let place = 0, depth = 0;
    const take = (...words) => tokens[place] && words.includes(tokens[place].word) ? Boolean(++place) : false;
    const joined = (part, joins, test) => {
      const parts = [part()];
      while (take(...joins)) parts.push(part());
      return parts.length === 1 ? parts[0] : (row) => parts[test]((fits) => fits(row));
    };
    const alternatives = () => joined(conjunction, ["or"], "some");
    const conjunction = () => joined(term, ["and", ","], "every");
    const verdict = (subject) => {
      const token = tokens[place++];
      const word = token && token.word !== null ? SYNONYMS[token.word] || token.word : "";
      const code = data.verdicts.indexOf(word);
      if (code < 0) throw new Error(`${token ? `'${token.text}'` : "the end"} after '${subject.text}'; a verdict was expected: ${data.verdicts.join(", ")}`);
      return code;
    };
    function term() {
      if (++depth > 40) throw new Error("more than 40 brackets within each other");
      try {
        if (take("not")) { const part = term(); return (row) => !part(row); }
        if (take("(")) {
          const part = alternatives();
          if (!take(")")) throw new Error("an opening bracket is not closed");
          return part;
        }
        return claim();
      } finally { depth -= 1; }
    }
    function claim() {
      const subject = tokens[place++];
      if (!subject) throw new Error("it ends where a run was expected");
      const everyone = data.runs.map((_, run) => run);
      let runs, least = 1;
      if (["all", "any", "none", "most"].includes(subject.word)) {
        runs = everyone;
        least = { all: everyone.length, most: Math.floor(everyone.length / 2) + 1 }[subject.word] || 1;
      } else {
        let named = subject.word === null ? [] : everyone.filter((run) => data.runs[run].letter === subject.text);
        if (!named.length) named = everyone.filter((run) => data.runs[run].names.includes(subject.text));
        if (!named.length && subject.word !== null) named = everyone.filter((run) => data.runs[run].letter === subject.text.toUpperCase());
        if (named.length > 1) throw new Error(`several runs are called '${subject.text}': use their letters`);
        if (!named.length) throw new Error(`no run is called '${subject.text}'. Columns: ${data.runs.map((run) => run.letter).join(", ")}; or all, any, none, most`);
        runs = named;
      }
      take("is", "are", "was", "were");
      const negated = take("not");
      const codes = new Set([verdict(subject)]);
      while (take("/")) codes.add(verdict(subject));
      const cells = data.cells[profile()].verdicts;
      const fits = (row) => runs.filter((run) => codes.has(Number(cells[run][row])) !== negated).length >= least;
      return subject.word === "none" ? (row) => !fits(row) : fits;
    }
    const pattern = alternatives();
    if (place < tokens.length) throw new Error(`'${tokens[place].text}'; 'and', 'or' or the end was expected`);
    return pattern;
  }

  const profile = () => (state.get("profile") in data.cells ? state.get("profile") : data.profiles[0]);
  const order = () => (state.get("sort") in data.cells[profile()].orders ? state.get("sort") : data.sort);
  const chosen = () => new Map(state.getAll("where").filter((text) => text.includes("=")).map((text) => {
    const at = text.indexOf("=");
    return [text.slice(0, at).replaceAll("%3D", "=").replaceAll("%25", "%"), text.slice(at + 1)];
  }));
  const escaped = (name) => name.replaceAll("%", "%25").replaceAll("=", "%3D");

  function selected() {
    const rows = data.rows, text = (state.get("text") || "").toLowerCase(), within = state.get("within") || "";
    const pattern = (state.get("pattern") || "").trim() ? parsePattern(state.get("pattern")) : null;
    const slices = [...chosen()].map(([name, value]) => {
      const slice = data.slices.find((entry) => entry.name === name);
      return { codes: slice ? slice.codes : null, code: slice ? slice.values.indexOf(value) : -1 };
    });
    const has = (row) =>
      (within !== "reply" && rows.question[row].toLowerCase().includes(text)) ||
      (within !== "question" && data.replies.some((replies) => replies[row].toLowerCase().includes(text)));
    return data.cells[profile()].orders[order()].filter((row) =>
      slices.every((slice) => slice.codes && slice.code >= 0 && slice.codes[row] === slice.code) && (!pattern || pattern(row)) && (!text || has(row)));
  }

  function set(changes, replace = false) {
    const next = new URLSearchParams(state);
    if (!("number" in changes)) next.delete("number");
    for (const [name, value] of Object.entries(changes)) {
      next.delete(name);
      for (const text of [value].flat()) if (text !== "" && text !== null) next.append(name, text);
    }
    state = next;
    const hash = String(next) ? `#${next}` : location.pathname;
    if (replace) history.replaceState(null, "", hash); else history.pushState(null, "", hash);
    draw();
  }

  const chip = (id, label, active, changes, count) => el("a", { class: "chip", id, href: "#", "aria-current": active ? "true" : null,
    onclick: (event) => { event.preventDefault(); set(changes); } }, el("bdi", {}, label), count === undefined ? null : el("small", {}, ` ${number(count)}`));

  function drawFacets() {
    const filters = chosen();
    const side = document.querySelector(".side");
    side.replaceChildren(...data.slices.map((slice, place) => {
      const value = filters.get(slice.name);
      const others = [...filters].filter(([name]) => name !== slice.name).map(([name, text]) => `${escaped(name)}=${text}`);
      const counts = slice.counts.map((count, code) => [slice.values[code], count]).slice(0, FACET_VALUES);
      return el("details", { class: "facet", "data-facet": slice.name, open: place < 3 },
        el("summary", {}, el("bdi", {}, slice.name), value === undefined ? null : el("small", {}, " ", el("bdi", {}, value))),
        el("div", { class: "chips" }, counts.map(([text, count], at) => chip(`facet-${place + 1}-${at + 1}`, text || "(empty)", text === value, { where: text === value ? others : [...others, `${escaped(slice.name)}=${text}`] }, count))));
    }));
    keepOpen();
  }

  function drawPresets() {
    const pattern = state.get("pattern") || "";
    const presets = data.presets.map((text, at) => chip(`preset-${at + 1}`, text, text === pattern, { pattern: text === pattern ? "" : text }));
    if (pattern || state.get("text") || state.getAll("where").length) presets.push(chip("clear-filters", "Clear filters", false, { where: [], pattern: "", text: "", within: "" }));
    byId("samples-presets").replaceChildren(...presets);
  }

  function verdictOf(word, extracted) {
    return el("span", { class: `verdict v-${word}` }, el("span", { class: "word" }, word), extracted ? el("small", { class: "extracted" }, el("bdi", {}, extracted)) : null);
  }

  function drawRow(row) {
    const { rows, words } = data, cells = data.cells[profile()];
    const thumb = rows.thumbnail[row];
    const filters = chosen();
    const tags = data.slices.filter((slice) => !filters.has(slice.name) && slice.codes[row] >= 0).slice(0, TAGS).map((slice) => slice.values[slice.codes[row]]);
    const extra = rows.images[row] - 1;
    return el("tr", { "data-row": true },
      el("th", { scope: "row", class: "what" }, el("a", { class: "sample", href: rows.address[row], "data-open": true },
        thumb ? el("span", { class: "thumb" }, el("img", { src: thumb, alt: "", loading: "lazy", decoding: "async", width: 96, height: 72 }), extra > 0 ? el("small", {}, `+${extra}`) : null) : null,
        el("span", { class: "about-sample" }, el("span", { class: "question", dir: "auto" }, el("bdi", {}, rows.question[row])),
          el("span", { class: "tags" }, el("bdi", { class: "id" }, rows.id[row]), rows.repeat[row] ? ` · repeat ${rows.repeat[row]}` : "", tags.filter(Boolean).map((tag) => [" · ", el("bdi", {}, tag)]).flat(),
            rows.target[row] === null ? null : [" · target ", el("bdi", { class: "gold" }, rows.target[row])])))),
      data.runs.map((run, place) => el("td", { class: "run", "data-letter": run.letter },
        verdictOf(data.verdicts[Number(cells.verdicts[place][row])], words[cells.extracted[place][row]]),
        cells.unsure[place].has(row) ? el("small", { class: "flag" }, "judge unsure") : null,
        cells.differ[place].has(row) ? el("small", { class: "flag" }, "profiles differ") : null)));
  }
  function drawCounts(rows) {
    document.querySelectorAll(".samples-table thead .run").forEach((head, place) => {
      const counts = data.verdicts.map(() => 0);
      for (const row of rows) counts[Number(data.cells[profile()].verdicts[place][row])] += 1;
      const list = head.querySelector(".verdict-list"), bar = head.querySelector(".verdict-bar");
      const codes = data.verdict_order.map((word) => data.verdicts.indexOf(word)).filter((code) => counts[code]);
      list?.replaceChildren(...codes.map((code) => el("span", { class: `verdict v-${data.verdicts[code]}`, title: data.verdicts[code] }, el("span", { class: "sr" }, `${data.verdicts[code]} `), number(counts[code]))));
      if (!bar) return;
      bar.setAttribute("viewBox", `0 0 ${Math.max(1, rows.length)} 6`);
      let at = 0;
      bar.replaceChildren(...codes.map((code) => {
        const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
        for (const [name, value] of Object.entries({ class: `f-${data.verdicts[code]}`, x: at, width: counts[code], height: 6 })) rect.setAttribute(name, value);
        at += counts[code];
        return rect;
      }));
    });
  }

  function drawProblem(text) {
    document.getElementById("samples-problem")?.remove();
    if (text) byId("samples-count").closest(".summary-line").before(el("p", { class: "problem", role: "alert", id: "samples-problem" }, `Verdict pattern: ${text}.`));
  }

  // What is drawn anew keeps the focus, so that the keyboard stays where it was.
  function draw() {
    const focused = document.activeElement?.id;
    drawAll();
    if (focused && document.activeElement?.id !== focused) byId(focused)?.focus({ preventScroll: true });
  }

  function drawAll() {
    let rows = [], problem = "";
    try { rows = selected(); } catch (error) { problem = error.message; }
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    const page = Math.min(pages, Math.max(1, Math.floor(Number(state.get("number"))) || 1));
    const first = (page - 1) * PAGE, visible = rows.slice(first, first + PAGE);
    drawProblem(problem);
    byId("samples-rows").replaceChildren(...visible.map(drawRow));
    const of = rows.length === data.rows.id.length ? "" : ` (of ${number(data.rows.id.length)})`;
    byId("samples-count").textContent = visible.length ? `${number(first + 1)} to ${number(first + visible.length)} of ${number(rows.length)} ${rows.length === 1 ? "sample" : "samples"}${of}` : `0 samples${of}`;
    byId("samples-none").hidden = visible.length > 0 || problem !== "";
    byId("samples-pager").replaceChildren(
      ...[page > 1 ? el("button", { type: "button", class: "press", id: "samples-previous", "data-key": "p", "data-key-help": "previous page", onclick: () => turn(page - 1) }, "← Previous") : null,
        el("span", {}, `page ${number(page)} of ${number(pages)}`),
        page < pages ? el("button", { type: "button", class: "press", id: "samples-next", "data-key": "n", "data-key-help": "next page", onclick: () => turn(page + 1) }, "Next →") : null].filter(Boolean));
    drawCounts(rows);
    drawFacets();
    drawPresets();
    for (const [name, id] of [["text", "samples-text"], ["within", "samples-within"], ["pattern", "samples-pattern"]]) {
      if (document.activeElement !== byId(id)) byId(id).value = state.get(name) || "";
    }
    byId("samples-sort").value = order() === data.sort ? "" : order();
    if (byId("samples-profile")) byId("samples-profile").value = profile() === data.profiles[0] ? "" : profile();
  }
  function turn(to) {
    set({ number: String(to) });
    byId("samples-result").scrollIntoView({ block: "start" });
  }

  document.addEventListener("DOMContentLoaded", () => {
    const source = byId("samples-data");
    if (!source) return;
    data = JSON.parse(source.textContent);
    for (const cells of Object.values(data.cells)) {
      cells.unsure = cells.unsure.map((rows) => new Set(rows));
      cells.differ = cells.differ.map((rows) => new Set(rows));
    }
    state = new URLSearchParams(location.hash.slice(1));
    let waiting = 0;
    const typed = (name) => (event) => { clearTimeout(waiting); waiting = setTimeout(() => set({ [name]: event.target.value }, true), 150); };
    byId("samples-text").addEventListener("input", typed("text"));
    byId("samples-pattern").addEventListener("input", typed("pattern"));
    byId("samples-within").addEventListener("change", (event) => set({ within: event.target.value }));
    byId("samples-sort").addEventListener("change", (event) => set({ sort: event.target.value }));
    byId("samples-profile")?.addEventListener("change", (event) => set({ profile: event.target.value }));
    byId("samples-benchmark")?.addEventListener("change", (event) => { location.href = event.target.selectedOptions[0].dataset.address; });
    byId("samples-form").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("popstate", () => { state = new URLSearchParams(location.hash.slice(1)); draw(); });
    draw();
  });
})();
