// The case page: an image enlarged to its pixels, the coordinates under the pointer, and the difference of two images.
(() => {
  const AMPLIFY = 4; // differences of a few levels are invisible otherwise
  const start = () => {
    const dialog = document.getElementById("viewer");
    if (!dialog) return;
    const figures = [...document.querySelectorAll("[data-picture]")];
    const part = (name) => dialog.querySelector(`[data-${name}]`);
    const stage = part("stage");
    const canvas = stage.querySelector("canvas");
    const select = part("against");
    const pen = canvas.getContext("2d");
    let picture = null, other = null, scale = 1, left = 0, top = 0, drag = null, source = null, readable = true;

    const sizeOf = (image) => [image.naturalWidth, image.naturalHeight];
    // Both images at the first one's size, as |a - b|; only drawn, never read, so that it works with files too.
    const difference = (first, second) => {
      const [width, height] = sizeOf(first);
      const sheet = document.createElement("canvas");
      sheet.width = width;
      sheet.height = height;
      const brush = sheet.getContext("2d");
      brush.drawImage(first, 0, 0);
      brush.globalCompositeOperation = "difference";
      brush.drawImage(second, 0, 0, width, height);
      brush.globalCompositeOperation = "lighter";
      for (let doubled = 1; doubled < AMPLIFY; doubled *= 2) brush.drawImage(sheet, 0, 0);
      return sheet;
    };
    const place = () => {
      const box = stage.getBoundingClientRect();
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.max(1, Math.round(box.width * ratio));
      canvas.height = Math.max(1, Math.round(box.height * ratio));
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, box.width, box.height);
      pen.imageSmoothingEnabled = scale < 1;
      const [width, height] = sizeOf(picture);
      pen.drawImage(source, left, top, width * scale, height * scale);
      part("scale").textContent = `${scale >= 1 ? Math.round(scale * 100) : (scale * 100).toPrecision(2)} %`;
    };
    const zoomTo = (next, x, y) => {
      const bounded = Math.min(64, Math.max(0.02, next));
      left = x - ((x - left) * bounded) / scale;
      top = y - ((y - top) * bounded) / scale;
      scale = bounded;
      place();
    };
    const middle = () => { const box = stage.getBoundingClientRect(); return [box.width / 2, box.height / 2]; };
    const fit = (most = 64) => {
      const box = stage.getBoundingClientRect();
      const [width, height] = sizeOf(picture);
      scale = Math.min(most, box.width / width, box.height / height);
      if (scale > 1) scale = Math.floor(scale);
      left = (box.width - width * scale) / 2;
      top = (box.height - height * scale) / 2;
      place();
    };
    const one = () => {
      const [x, y] = middle();
      const [width, height] = sizeOf(picture);
      scale = 1;
      left = Math.round(x - width / 2);
      top = Math.round(y - height / 2);
      place();
    };
    const colourAt = (x, y) => {
      if (!readable) return "";
      try {
        const probe = document.createElement("canvas");
        probe.width = probe.height = 1;
        const brush = probe.getContext("2d", { willReadFrequently: true });
        brush.drawImage(source, x, y, 1, 1, 0, 0, 1, 1);
        const [red, green, blue] = brush.getImageData(0, 0, 1, 1).data;
        return `  rgb ${red} ${green} ${blue}`;
      } catch { readable = false; return ""; } // images of a file: address cannot be read back
    };
    const point = (event) => {
      const box = stage.getBoundingClientRect();
      const [width, height] = sizeOf(picture);
      const x = Math.floor((event.clientX - box.left - left) / scale);
      const y = Math.floor((event.clientY - box.top - top) / scale);
      const inside = x >= 0 && y >= 0 && x < width && y < height;
      part("coordinates").textContent = inside ? `x ${x}  y ${y}  (${(x / width).toFixed(3)}, ${(y / height).toFixed(3)})${colourAt(x, y)}` : `${width} × ${height}`;
    };
    const load = (figure) => { const image = figure.querySelector("img"); image.loading = "eager"; return image.decode().then(() => image); };
    const show = async () => {
      const figure = figures.find((entry) => entry.dataset.label === select.value && entry !== dialog.figure);
      source = picture;
      readable = true;
      part("title").textContent = dialog.figure.dataset.label;
      if (figure) {
        other = await load(figure);
        source = difference(picture, other);
        part("coordinates").textContent = "";
        part("title").textContent = `${dialog.figure.dataset.label}, difference to ${figure.dataset.label} (× ${AMPLIFY})`;
      }
      place();
    };
    const open = async (figure) => {
      try { picture = await load(figure); } catch { return; }
      source = picture;
      dialog.figure = figure;
      part("title").textContent = figure.dataset.label;
      select.replaceChildren(new Option("none", ""), ...figures.filter((entry) => entry !== figure).map((entry) => new Option(entry.dataset.label, entry.dataset.label)));
      select.value = "";
      select.closest("label").hidden = figures.length < 2;
      if (!dialog.open) {
        // The dialog gives the focus back to where it was; its own event comes only after a while.
        figure.querySelector("button")?.focus({ preventScroll: true });
        dialog.showModal();
      }
      fit();
      part("coordinates").textContent = sizeOf(picture).join(" × ");
      stage.focus();
    };
    for (const figure of figures) figure.querySelector("button").addEventListener("click", () => open(figure));
    select.addEventListener("change", show);
    for (const button of dialog.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => {
      const kind = button.dataset.zoom;
      if (kind === "fit") fit();
      else if (kind === "one") one();
      else zoomTo(scale * (kind === "in" ? 2 : 0.5), ...middle());
    });
    part("close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => dialog.figure?.querySelector("button")?.focus());
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = stage.getBoundingClientRect();
      zoomTo(scale * (event.deltaY < 0 ? 1.25 : 0.8), event.clientX - box.left, event.clientY - box.top);
      point(event);
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => { drag = [event.clientX - left, event.clientY - top]; stage.setPointerCapture(event.pointerId); });
    stage.addEventListener("pointermove", (event) => {
      if (drag) { left = event.clientX - drag[0]; top = event.clientY - drag[1]; place(); }
      point(event);
    });
    for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, () => { drag = null; });
    dialog.addEventListener("keydown", (event) => {
      if (event.target === select || event.ctrlKey || event.metaKey || event.altKey) return;
      const move = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
      if (move) { left += move[0]; top += move[1]; place(); }
      else if (event.key === "+" || event.key === "=") zoomTo(scale * 2, ...middle());
      else if (event.key === "-") zoomTo(scale * 0.5, ...middle());
      else if (event.key === "0") fit();
      else if (event.key === "1") one();
      else return;
      event.preventDefault();
    });
    window.addEventListener("resize", () => { if (dialog.open && picture) place(); });
    const opener = document.createElement("button");
    opener.type = "button";
    opener.className = "tool";
    opener.textContent = "Enlarge";
    opener.dataset.key = "z";
    opener.dataset.keyHelp = "enlarge the first image";
    if (figures.length) {
      opener.addEventListener("click", () => open(figures[0]));
      document.querySelector(".walk")?.append(opener);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
