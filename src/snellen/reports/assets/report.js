"use strict";
// The gallery. What is shown follows from the address after "#" alone, so every view can be linked to.
// Text of replies and data only ever becomes text nodes; the page's policy refuses anything else.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const { runs, questions, answers } = read("data");
  const pictures = read("pictures");
  const VERDICTS = ["wrong", "partial", "invalid", "error", "unscored", "correct"];
  const byId = (id) => document.getElementById(id);
  const PAGE = Number(byId("cards").dataset.page);
  const cards = byId("cards"), detail = byId("detail"), more = byId("more");
  let shown = PAGE, found = [], drawn = null, state = new URLSearchParams();

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children.flat()) {
      if (child === null || child === undefined || child === "") continue;
      node.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
    return node;
  }

  // Gold and answer on the picture: a tree of elements (overlay.py).
  function tree([tag, attributes, ...children], inside = false) {
    const svg = inside || tag === "svg", node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, name === "src" ? pictures[value] : value);
    node.append(...children.map((child) => typeof child === "string" ? child : tree(child, svg)));
    return node;
  }

  const question = (answer) => questions[answer.q];
  const key = (answer) => `${answer.r}:${answer.k}:${question(answer).id}`;
  const byKey = new Map(answers.map((answer, at) => [key(answer), at]));

  function judged(answer, profile) {
    const names = runs[answer.r].profiles;
    const at = profile ? names.indexOf(profile) : 0;
    if (at < 0) return null;
    const found = answer.v[at];
    if (found) return { verdict: found[0], read: found[1], reason: found[2], value: found[3], stage: found[4], profile: names[at] };
    return { verdict: answer.s === "ok" ? "unscored" : "error", read: null, reason: null, value: null, profile: names[at] };
  }

  const disagree = (answer) => new Set(answer.v.filter(Boolean).map((v) => v[0])).size > 1;

  function haystack(answer) {
    if (!answer.words) {
      const asked = question(answer);
      answer.words = [asked.id, ...asked.parts.map((p) => p.t || ""), ...asked.options.flat(), asked.target, answer.t, answer.z,
        answer.e && answer.e.join(" "), ...answer.v.filter(Boolean).map((v) => v[1])].filter(Boolean).join("\n").toLowerCase();
    }
    return answer.words;
  }

  function fits(answer, but) {
    const verdicts = state.get("verdict"), profile = state.get("profile");
    const one = judged(answer, profile);
    if (!one) return false;
    for (const [name, value] of state) {
      if (name === but || value === "") continue;
      if (name === "run" && runs[answer.r].name !== value) return false;
      if (name === "verdict" && !verdicts.split(",").includes(one.verdict)) return false;
      if (name === "error" && !(answer.e && answer.e[0] === value)) return false;
      if (name === "target" && question(answer).target !== value) return false;
      if (name === "read" && (value === "-" ? one.read !== null && one.read !== "" : one.read !== value)) return false;
      if (name === "disagree" && !disagree(answer)) return false;
      if (name === "q" && !haystack(answer).includes(value.toLowerCase())) return false;
      if (name.startsWith("by.") && question(answer).by[name.slice(3)] !== value) return false;
    }
    return true;
  }

  const SORTS = {
    "incorrect first": (a, b) => rank(a) - rank(b),
    "run order": null,
    "slowest first": (a, b) => (b.l || 0) - (a.l || 0),
    "longest reply first": (a, b) => (b.t || "").length - (a.t || "").length,
  };
  const rank = (answer) => VERDICTS.indexOf((judged(answer, state.get("profile")) || {}).verdict);

  const gallery = byId("gallery");
  function set(changes) {
    const next = new URLSearchParams(state);
    const runs = new URLSearchParams(location.hash.slice(1)).get("runs"); // the order of the table of runs
    if (runs) next.set("runs", runs); else next.delete("runs");
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") next.delete(name); else next.set(name, value);
    }
    state = next;
    history.replaceState(null, "", String(next) ? `#${next}` : "#gallery");
    draw();
  }

  function follow() {
    const hash = location.hash.slice(1);
    if (!hash.includes("=")) { if (!hash) { state = new URLSearchParams(); draw(); } return; }
    const before = state.get("open");
    state = new URLSearchParams(hash);
    draw();
    if (!state.get("open") && !before && [...state.keys()].some((name) => name !== "runs")) gallery.scrollIntoView();
  }

  function picture(part) {
    if (part.p === undefined) return el("span", { class: "none" }, part.note);
    return thumbnail(part.p, part.w === undefined ? "image of the question" : "image as sent to the model");
  }

  function thumbnail(name, text) {
    const image = el("img", { alt: text, decoding: "async" });
    image.addEventListener("load", () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= 160));
    image.src = pictures[name] || "data:,";
    return image;
  }

  // A picture that the run changed: what was sent, and the original beside it.
  function asSent(part) {
    if (part.w === undefined) return picture(part);
    return el("div", { class: "changed" },
      el("figure", {}, picture(part), el("figcaption", {}, `sent: ${part.w}`)),
      part.o === undefined ? null : el("figure", { class: "before" }, thumbnail(part.o, "original image, not sent"), el("figcaption", {}, "original, not sent")));
  }

  const sign = (verdict) => el("span", { class: `sign ${verdict}` });
  const said = (text) => text === null || text === "" ? el("span", { class: "none" }, "none") : el("bdi", {}, text);
  const link = (changes) => {
    const next = new URLSearchParams(state);
    for (const [name, value] of Object.entries(changes)) next.set(name, value);
    return `#${next}`;
  };

  function card(answer) {
    const asked = question(answer), one = judged(answer, state.get("profile"));
    const shownParts = asked.parts.filter((p) => p.p !== undefined).slice(0, 4);
    const text = asked.parts.filter((p) => p.t).map((p) => p.t).join(" ");
    return el("li", {}, el("a", { class: "card", href: link({ open: key(answer) }) },
      el("div", { class: "line" }, sign(one.verdict), el("span", {}, one.verdict), el("bdi", { class: "id" }, asked.id + (answer.k ? ` · repeat ${answer.k}` : ""))),
      answer.d ? el("div", { class: "strip regions" }, tree(answer.d[2][2])) :
        shownParts.length ? el("div", { class: "strip" }, shownParts.map((p) => picture(p))) : null,
      el("bdi", { class: "question" }, text.slice(0, 400)),
      el("dl", { class: "said" },
        asked.target === null ? null : [el("dt", {}, "target"), el("dd", {}, el("bdi", {}, asked.target))],
        answer.e ? [el("dt", {}, "failed"), el("dd", {}, answer.e[0])] : [el("dt", {}, "extracted"), el("dd", {}, said(one.read), one.stage === "reader" ? el("small", {}, " read by a model") : null)],
        runs.length > 1 ? [el("dt", {}, "run"), el("dd", {}, el("bdi", {}, runs[answer.r].name))] : null)));
  }

  // The reply, with the words marked that its answer was read from. Places count characters, and text units of 16 bits.
  function marked(text, places) {
    const characters = places.length ? Array.from(text) : [], pieces = [];
    let at = 0;
    for (const [start, end] of places.slice().sort((one, other) => one[0] - other[0])) {
      if (start < at) continue;
      pieces.push(characters.slice(at, start).join(""), el("mark", { class: "read" }, characters.slice(start, end).join("")));
      at = end;
    }
    return places.length ? [...pieces, characters.slice(at).join("")] : [text];
  }

  function options(asked, one) {
    return el("ul", { class: "options" }, asked.options.map(([letter, text]) => {
      const tags = [[letter, text].includes(asked.target) ? "target" : "", one.read !== null && [letter, text].includes(one.read) ? "extracted" : ""];
      return el("li", {}, el("b", {}, letter), el("bdi", {}, text), tags.filter(Boolean).map((tag) => el("span", { class: "tagged" }, tag)));
    }));
  }

  function verdictTable(answer) {
    const rows = runs[answer.r].profiles.map((profile) => {
      const one = judged(answer, profile);
      return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, profile)),
        el("td", {}, sign(one.verdict), one.verdict, one.value !== null && one.value !== 0 && one.value !== 1 ? ` ${Math.round(100 * one.value)} %` : ""),
        el("td", {}, said(one.read)), el("td", {}, one.stage || ""), el("td", {}, el("bdi", {}, one.reason || "")));
    });
    const head = ["profile", "verdict", "extracted", "stage", "reason"].map((name) => el("th", { scope: "col" }, name));
    return el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
  }

  function others(answer) {
    const same = answers.filter((other) => other !== answer && question(other).id === question(answer).id);
    if (!same.length) return [];
    return [el("h3", {}, "Other answers to this sample"), el("ul", { class: "options" }, same.slice(0, 12).map((other) => {
      const one = judged(other, null);
      return el("li", {}, el("a", { href: link({ open: key(other) }) }, sign(one.verdict), el("bdi", {}, runs[other.r].name), other.k ? ` · repeat ${other.k}` : "", " · ", said(one.read)));
    }))];
  }

  function open(at) {
    const answer = answers[at], asked = question(answer), one = judged(answer, state.get("profile")) || judged(answer, null);
    const place = found.indexOf(answer);
    const step = (by) => { const next = found[place + by]; if (next) set({ open: key(next) }); };
    const facts = [answer.l === null ? "" : `${answer.l < 1 ? Math.round(1000 * answer.l) + " ms" : answer.l.toFixed(1) + " s"}`,
      answer.n === null ? "" : `${answer.n} tokens`, answer.s === "ok" ? "" : answer.s].filter(Boolean).join(" · ");
    const held = detail.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    detail.replaceChildren(
      el("div", { class: "bar-top" },
        el("h2", { id: "detail-title" }, sign(one.verdict), el("bdi", {}, asked.id), el("small", {}, el("bdi", {}, runs[answer.r].name), answer.k ? ` · repeat ${answer.k}` : "", facts ? ` · ${facts}` : "", place >= 0 ? ` · ${place + 1} of ${found.length}` : "")),
        el("div", { class: "pager" },
          el("button", { type: "button", "aria-label": "Previous answer", disabled: place <= 0, onclick: () => step(-1) }, "←"),
          el("button", { type: "button", "aria-label": "Next answer", disabled: place < 0 || place + 1 >= found.length, onclick: () => step(1) }, "→"),
          el("button", { type: "button", "aria-label": "Close", onclick: () => detail.close() }, "✕"))),
      el("div", { class: "detail" },
        el("section", {},
          asked.system ? el("details", {}, el("summary", {}, "System prompt"), el("p", { class: "text" }, asked.system)) : null,
          el("h3", {}, "Prompt"),
          el("div", { class: "shown" }, asked.parts.map((p) => p.t === undefined ? asSent(p) : el("p", { class: "text", dir: "auto" }, p.t))),
          asked.options.length ? [el("h3", {}, "Options"), options(asked, one)] : null,
          el("details", {}, el("summary", {}, "Sample details"), el("dl", { class: "meta" }, Object.entries(asked.meta).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value === null ? "" : el("bdi", {}, value))])))),
        el("section", {},
          answer.d ? [el("h3", {}, "Gold and answer"), tree(answer.d)] : null,
          el("h3", {}, "Target"),
          el("p", { class: "target" }, asked.target === null ? el("span", { class: "none" }, "not shown") : el("bdi", {}, asked.target)),
          el("h3", {}, answer.e ? `No reply: ${answer.e[0]}` : "Reply"),
          el("p", { class: "reply text", dir: "auto", tabindex: "0" }, answer.e ? answer.e[1] : answer.t === null || answer.t === "" ? "(empty)" : marked(answer.t, answer.w || [])),
          answer.z ? el("details", {}, el("summary", {}, "Reasoning"), el("p", { class: "reply text", dir: "auto" }, answer.z)) : null,
          el("h3", {}, "Scoring"), verdictTable(answer), others(answer))));
    if (!detail.open) detail.showModal();
    detail.scrollTop = 0;
    detail.step = step;
    const again = held && [...detail.querySelectorAll(".pager button")].find((button) => button.getAttribute("aria-label") === held && !button.disabled);
    (again || detail.querySelector(".pager button:not(:disabled)")).focus();
  }

  document.addEventListener("keydown", (event) => {
    if (!detail.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft" || event.key === "k") detail.step(-1);
    if (event.key === "ArrowRight" || event.key === "j") detail.step(1);
  });
  detail.addEventListener("close", () => {
    const at = byKey.get(state.get("open"));
    if (at === undefined) return;
    const place = found.indexOf(answers[at]);
    set({ open: null });
    if (place >= 0 && place < shown) cards.children[place].firstElementChild.focus();
  });
  detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });

  function chips() {
    const profile = state.get("profile"), chosen = (state.get("verdict") || "").split(",").filter(Boolean);
    const counts = {};
    for (const answer of answers) if (fits(answer, "verdict")) { const v = judged(answer, profile).verdict; counts[v] = (counts[v] || 0) + 1; }
    byId("verdicts").replaceChildren(...VERDICTS.filter((v) => counts[v] || chosen.includes(v)).map((verdict) => el("button", {
      type: "button", "aria-pressed": String(chosen.includes(verdict)),
      onclick: () => {
        const next = chosen.includes(verdict) ? chosen.filter((v) => v !== verdict) : [...chosen, verdict];
        set({ verdict: next.join(",") });
        const again = [...byId("verdicts").children].find((b) => b.textContent.startsWith(verdict));
        if (again) again.focus();
      } }, sign(verdict), `${verdict} ${(counts[verdict] || 0).toLocaleString("en")}`)));
  }

  const FIRST = ["level", "task", "kind"];
  function facets() {
    const columns = new Map();
    for (const asked of questions) for (const [name, value] of Object.entries(asked.by)) {
      if (!columns.has(name)) columns.set(name, new Set());
      columns.get(name).add(value);
    }
    const list = [...columns].filter(([, values]) => values.size > 1 && values.size <= 40).sort(([a], [b]) => FIRST.indexOf(b) - FIRST.indexOf(a)).slice(0, 10).map(([name, values]) => [`by.${name}`, name, [...values].sort((a, b) => a.localeCompare(b, "en", { numeric: true }))]);
    const profiles = [...new Set(runs.flatMap((run) => run.profiles))];
    const errors = [...new Set(answers.flatMap((answer) => answer.e ? [answer.e[0]] : []))].sort();
    const first = [];
    if (runs.length > 1) first.push(["run", "run", runs.map((run) => run.name)]);
    if (profiles.length > 1) first.push(["profile", "profile", profiles]);
    if (errors.length) list.push(["error", "error", errors]);
    const selects = [...first, ...list].map(([name, label, values]) => el("label", {}, el("span", {}, label),
      el("select", { name, onchange: (event) => set({ [name]: event.target.value }) },
        name === "profile" ? null : el("option", { value: "" }, "all"), values.map((value) => el("option", { value }, value)))));
    selects.push(el("label", {}, el("span", {}, "order"), el("select", { name: "sort", onchange: (event) => set({ sort: event.target.value }) },
      Object.keys(SORTS).map((name) => el("option", { value: name === "incorrect first" ? "" : name }, name)))));
    if (answers.some(disagree)) selects.push(el("label", { class: "check" }, el("input", { type: "checkbox", name: "disagree", onchange: (event) => set({ disagree: event.target.checked ? "1" : "" }) }), el("span", {}, "profiles disagree")));
    byId("selects").replaceChildren(...selects);
  }

  function controls() {
    chips();
    for (const input of byId("selects").querySelectorAll("select, input")) {
      const value = state.get(input.name) || "";
      if (input.type === "checkbox") input.checked = value === "1";
      else input.value = value || (input.name === "profile" ? runs[0].profiles[0] : "");
    }
    const search = byId("search");
    if (document.activeElement !== search) search.value = state.get("q") || "";
    const extra = [["target", "target"], ["read", "extracted"]].filter(([name]) => state.get(name)).map(([name, label]) => `, ${label} “${state.get(name) === "-" ? "none" : state.get(name)}”`).join("");
    byId("count").value = `${found.length.toLocaleString("en")} of ${answers.length.toLocaleString("en")} answers${extra}`;
    byId("clear").hidden = ![...state.keys()].some((name) => name !== "open" && name !== "runs");
  }

  function list() {
    const filters = new URLSearchParams(state);
    filters.delete("open");
    filters.delete("runs");
    if (String(filters) === drawn) return;
    drawn = String(filters);
    shown = PAGE;
    found = answers.filter((answer) => fits(answer, "open"));
    const order = SORTS[state.get("sort") || "incorrect first"];
    if (order) found.sort(order);
    cards.replaceChildren(...found.slice(0, shown).map(card));
    if (!found.length) cards.append(el("li", { class: "empty" }, answers.length ? "No answers match these filters." : "This run has no answers yet."));
    left();
    controls();
  }

  function left() {
    more.hidden = found.length <= shown;
    more.textContent = `Show more (${Math.max(0, found.length - shown).toLocaleString("en")} more)`;
  }

  function draw() {
    list();
    const at = byKey.get(state.get("open"));
    if (at !== undefined) open(at); else if (detail.open) detail.close();
  }

  more.addEventListener("click", () => {
    const from = shown;
    shown += PAGE;
    cards.append(...found.slice(from, shown).map(card));
    left();
    const next = cards.children[from];
    if (next) next.firstElementChild.focus();
  });
  let waiting = 0;
  byId("search").addEventListener("input", (event) => { clearTimeout(waiting); waiting = setTimeout(() => set({ q: event.target.value }), 120); });
  byId("clear").addEventListener("click", () => { state = new URLSearchParams(); set({}); byId("search").value = ""; });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !detail.open && !event.target.matches("input, select, textarea")) { event.preventDefault(); byId("search").focus(); }
  });
  window.addEventListener("hashchange", follow);

  byId("filters").hidden = false;
  byId("keys").hidden = false;
  facets();
  draw();
  follow();
})();
