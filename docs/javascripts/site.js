// Names and keyboard focus that the theme's own script leaves out of what it adds to a page.
const complete = () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const [number, nav] of document.querySelectorAll(".md-code__nav").entries()) {
    if (!nav.ariaLabel) nav.ariaLabel = `Code block ${number + 1}`;
  }
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
};
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
complete();
