// What scrolls sideways can be scrolled by keyboard; the buttons of a block of code are no landmark.
function mend() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.setAttribute("role", "none");
}
// Keys and names in tables break behind their dots, not anywhere.
function split() {
  for (const code of document.querySelectorAll(".md-typeset table:not([class]) code")) {
    const parts = code.textContent.split(/(?<=[._/(])(?=.)/);
    if (!code.children.length && parts.length > 1)
      code.replaceChildren(...parts.flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])));
  }
}
addEventListener("load", split);
addEventListener("load", mend);
addEventListener("resize", mend);
