"use strict";
(() => {
  const root = document.documentElement;

  // The choice of a theme, kept where the browser lets a page on disk keep anything
  const themes = document.querySelectorAll("input[name=theme]");
  const kept = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("hudi-py-theme");
      localStorage.setItem("hudi-py-theme", value);
    } catch {}
    return null;
  };
  const chosen = kept();
  for (const each of themes) {
    if (each.value === chosen) each.checked = true;
    each.addEventListener("change", () => kept(each.value));
  }
  root.dataset.script = "";

  // Charts: the pointer or the slider below chooses a column, whose content is said in words
  for (const chart of document.querySelectorAll(".chart")) {
    const slider = chart.querySelector("input[type=range]");
    const plot = chart.querySelector("svg");
    const cursor = chart.querySelector(".cursor");
    const detail = chart.querySelector(".detail");
    const data = chart.querySelector("script");
    if (!slider || !data) continue;
    const texts = JSON.parse(data.textContent);
    const width = plot.viewBox.baseVal.width / texts.length;
    const show = () => {
      const at = Number(slider.value);
      cursor.setAttribute("x", String(at * width));
      cursor.setAttribute("width", String(width));
      detail.textContent = texts[at];
      slider.setAttribute("aria-valuetext", texts[at]);
    };
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      const at = Math.floor(((event.clientX - box.left) / box.width) * texts.length);
      slider.value = String(Math.min(Math.max(at, 0), texts.length - 1));
      show();
    });
    slider.addEventListener("input", show);
    slider.hidden = detail.hidden = false;
    show();
  }

  // A page that is opened from disk may have no clipboard of its own: then the command is selected instead
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const command = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(command.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(command);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // Only what does not fit is a stop on the way through the page by keyboard
  const regions = document.querySelectorAll(".scroll");
  const reach = () => {
    for (const region of regions) {
      if (region.scrollWidth > region.clientWidth + 1) region.tabIndex = 0;
      else region.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", reach);
  addEventListener("toggle", reach, true);
  reach();
})();
