"use strict";
// A line of the card that j, k or Tab reach shows its curve, as the arrow keys of the browser do.
document.addEventListener("focusin", (event) => {
  if (event.target.name === "acuity-line") event.target.checked = true;
});
