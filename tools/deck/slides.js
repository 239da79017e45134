// Starts reveal.js, and makes its keys work together with the keys of the figures.

const root = document.documentElement;
const isPrinted = /print-pdf|view=print/.test(location.search);
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)").matches;
root.dataset.theme = prefersDark && !isPrinted ? "dark" : "light";

const isInFigure = () => Boolean(document.activeElement?.closest(".kg-figure"));

// Presenters have Page Up and Page Down. They change the slide even if a figure has the focus.
function leaveFigure(event) {
  if (!isInFigure() || !["Escape", "PageUp", "PageDown"].includes(event.key)) return;
  document.activeElement.blur();
  event.preventDefault();
  event.stopPropagation();
  if (event.key === "PageUp") Reveal.prev();
  if (event.key === "PageDown") Reveal.next();
}

// The arrows and the space bar go through the steps of a figure before they change the slide. A figure opens where there
// is something to see. Unless the speaker has clicked in it, the first key tells its story from the beginning.
const STEPS = { ArrowRight: "next", ArrowDown: "next", " ": "next", ArrowLeft: "previous", ArrowUp: "previous" };

function stepFigure(event) {
  const figure = Reveal.getCurrentSlide()?.querySelector(".kg-figure");
  const step = STEPS[event.key];
  const button = figure?.querySelector(`.kg-${step}`);
  const isFresh = !figure?.classList.contains("begun");
  if (isInFigure() || !button || (isFresh ? step === "previous" : button.getAttribute("aria-disabled") !== "false")) return;
  figure.classList.add("begun");
  if (isFresh) {
    const slider = figure.querySelector(".kg-bar input");
    slider.value = 0;
    slider.dispatchEvent(new Event("input"));
  } else button.click();
  event.preventDefault();
  event.stopPropagation();
}

if (window.Reveal) {
  document.addEventListener("keydown", leaveFigure, true);
  document.addEventListener("keydown", stepFigure, true);
  document.addEventListener("click", ({ target }) => target.closest(".kg-figure")?.classList.add("begun"));
  Reveal.initialize({
    width: 1280,
    height: 720,
    margin: 0,
    center: false,
    hash: true,
    controls: false,
    progress: false,
    navigationMode: "linear",
    slideNumber: "c/t",
    transition: "none",
    backgroundTransition: "none",
    keyboardCondition: () => !isInFigure(),
    plugins: [RevealNotes],
  });
  Reveal.addKeyBinding({ keyCode: 68, key: "D", description: "Dark or light" }, () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  });
}
