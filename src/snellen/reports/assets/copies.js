"use strict";
// Buttons that copy a table as LaTeX or CSV, and that save a plot as SVG. Both work without a network.
(() => {
  const data = document.getElementById("copies");
  const copies = data ? JSON.parse(data.textContent) : {};

  function button(text, about, onclick) {
    const node = document.createElement("button");
    node.type = "button";
    node.textContent = text;
    node.setAttribute("aria-label", `${text}: ${about}`);
    node.addEventListener("click", onclick);
    return node;
  }

  function bar(...buttons) {
    const node = document.createElement("div"), status = document.createElement("output");
    node.className = "copies";
    status.setAttribute("aria-live", "polite");
    node.append(...buttons, status);
    return node;
  }

  function tell(from, text) {
    const status = from.parentElement.querySelector("output");
    status.value = text;
    clearTimeout(status.timer);
    status.timer = setTimeout(() => { status.value = ""; }, 4000);
  }

  // Browsers without the clipboard interface, and pages that may not use it, copy what is selected.
  function copySelected(text) {
    const field = document.createElement("textarea"), before = document.activeElement;
    field.value = text;
    field.className = "copied";
    field.setAttribute("aria-label", "Text to copy");
    document.body.append(field);
    field.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch { done = false; }
    field.remove();
    if (before) before.focus();
    return done;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copySelected(text);
    }
  }

  for (const table of document.querySelectorAll("table[data-copy]")) {
    const text = copies[table.dataset.copy];
    if (!text) continue;
    const copier = (format) => async (event) => {
      const from = event.currentTarget;
      tell(from, await copy(text[format === "CSV" ? "csv" : "latex"]) ? `${format} copied` : "The browser does not allow copying");
    };
    const place = table.closest(".scroll") || table;
    place.after(bar(...["LaTeX", "CSV"].map((format) => button(`Copy as ${format}`, text.title, copier(format)))));
  }

  const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  // Mixed colours as programs that draw SVG know them: #rrggbb and an opacity.
  function plainColour(colour) {
    pixel.clearRect(0, 0, 1, 1);
    pixel.fillStyle = colour;
    pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    return [`#${[r, g, b].map((part) => part.toString(16).padStart(2, "0")).join("")}`, a / 255];
  }

  const SVG = "http://www.w3.org/2000/svg";
  const TEXT = ["font-family", "font-size", "font-weight", "letter-spacing", "text-anchor"];

  function withoutStyleSheet(source, target) {
    const style = getComputedStyle(source), words = source.localName === "text" || source.localName === "tspan";
    if (words || /^(path|rect|circle|line|use|polygon|polyline|ellipse)$/.test(source.localName)) {
      for (const name of ["fill", "stroke"]) {
        const value = style.getPropertyValue(name);
        if (value === "none" || value.startsWith("url(")) { target.setAttribute(name, value.startsWith("url(") ? source.getAttribute(name) : "none"); continue; }
        const [colour, opacity] = plainColour(value);
        target.setAttribute(name, colour);
        if (opacity < 1) target.setAttribute(`${name}-opacity`, String(Number((opacity * style.getPropertyValue(`${name}-opacity`)).toFixed(3))));
      }
      if (words) for (const name of TEXT) if (style.getPropertyValue(name) !== "normal") target.setAttribute(name, style.getPropertyValue(name));
    }
    if (source.classList.contains("hit")) target.setAttribute("data-area", ""); // where the mouse may be, not part of the plot
    target.removeAttribute("class");
    [...source.children].forEach((child, at) => withoutStyleSheet(child, target.children[at]));
  }

  function standAlone(svg) {
    const root = document.documentElement, scheme = root.style.colorScheme, copied = svg.cloneNode(true);
    root.style.colorScheme = "light"; // every colour of the page is a pair of light-dark()
    try { withoutStyleSheet(svg, copied); } finally { root.style.colorScheme = scheme; }
    for (const link of copied.querySelectorAll("a")) {
      const group = document.createElementNS(SVG, "g");
      group.append(...link.childNodes);
      link.replaceWith(group);
    }
    for (const area of copied.querySelectorAll("[data-area]")) area.remove();
    const { width, height } = svg.viewBox.baseVal;
    for (const [name, value] of [["width", `${width}pt`], ["height", `${height}pt`]]) copied.setAttribute(name, value);
    for (const name of ["role", "data-name"]) copied.removeAttribute(name);
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copied)}\n`;
  }

  for (const svg of document.querySelectorAll("svg[data-name]")) {
    const figure = svg.closest("figure"), heading = figure.querySelector("h3");
    figure.append(bar(button("Save SVG", heading ? heading.textContent : svg.getAttribute("aria-label"), (event) => {
      const address = URL.createObjectURL(new Blob([standAlone(svg)], { type: "image/svg+xml" }));
      const link = document.createElement("a");
      link.href = address;
      link.download = `${svg.dataset.name}.svg`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 60000);
      tell(event.currentTarget, `${svg.dataset.name}.svg saved`);
    })));
  }
})();
