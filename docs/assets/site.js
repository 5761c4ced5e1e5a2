// What scrolls sideways can be scrolled by keyboard; the buttons of a block of code are no landmark.
function mend() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.setAttribute("role", "none");
}
addEventListener("load", mend);
addEventListener("resize", mend);
