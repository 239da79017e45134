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

// The arrows and the space bar go through the steps of a figure before they change the slide.
const STEPS = { ArrowRight: "next", ArrowDown: "next", " ": "next", ArrowLeft: "previous", ArrowUp: "previous" };

function stepFigure(event) {
  const figure = Reveal.getCurrentSlide()?.querySelector(".kg-figure");
  const button = figure?.querySelector(`.kg-${STEPS[event.key]}`);
  if (isInFigure() || button?.getAttribute("aria-disabled") !== "false") return;
  button.click();
  event.preventDefault();
  event.stopPropagation();
}

// A speaker tells a story from its beginning, so a figure begins at its first step.
function beginFigure({ currentSlide }) {
  const slider = currentSlide.querySelector(".kg-figure:not([data-begun]) .kg-bar input");
  if (!slider) return;
  slider.closest(".kg-figure").dataset.begun = "";
  slider.value = 0;
  slider.dispatchEvent(new Event("input"));
}

if (window.Reveal) {
  document.addEventListener("keydown", leaveFigure, true);
  document.addEventListener("keydown", stepFigure, true);
  if (!isPrinted) Reveal.on("slidechanged", beginFigure);
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
