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

// The arrows and the space bar go through the steps of a figure before they change the slide. On a page, a figure opens
// where there is something to see. In a talk, it opens at its first step.
const STEPS = { ArrowRight: "next", ArrowDown: "next", " ": "next", ArrowLeft: "previous", ArrowUp: "previous" };

function stepFigure(event) {
  const figure = Reveal.getCurrentSlide()?.querySelector(".kg-figure");
  const step = STEPS[event.key];
  const button = figure?.querySelector(`.kg-${step}`);
  if (isInFigure() || button?.getAttribute("aria-disabled") !== "false") return;
  button.click();
  event.preventDefault();
  event.stopPropagation();
}

function openAtFirstStep() {
  for (const slider of document.querySelectorAll(".kg-bar input")) {
    slider.value = 0;
    slider.dispatchEvent(new Event("input"));
  }
}

// Gives a slide the largest of three text sizes with which it fits the screen. The sizes in slides.css depend on --scale.
const SCALES = [1.25, 1, 0.85];
const WIDTH = 1184;
const LOWEST = 684; // Below is the number of the slide.

function fitText(slide) {
  if (!slide || slide.matches(".kind-title, .kind-figure")) return;
  const scaled = slide.offsetWidth / slide.getBoundingClientRect().width;
  const isFull = () => {
    const { top } = slide.getBoundingClientRect();
    const last = [...slide.children].findLast((part) => !part.matches(".notes"));
    return (last.getBoundingClientRect().bottom - top) * scaled > LOWEST;
  };
  // Larger text makes no table wider than the slide, and breaks no line of a listing.
  const isWide = (part) => part.scrollWidth > Math.min(part.clientWidth, WIDTH);
  const isBroken = (listing) => {
    const lines = listing.textContent.trimEnd().split("\n").length;
    return listing.offsetHeight > 24 + lines * 1.3 * parseFloat(getComputedStyle(listing).fontSize);
  };
  const parts = [...slide.querySelectorAll("pre, table, th, td")];
  const isTight = () => parts.some((part) => (part.matches("pre") ? isBroken(part) : isWide(part)));
  for (const scale of SCALES) {
    slide.style.setProperty("--scale", scale);
    if (!isFull() && (scale <= 1 || !isTight())) return;
  }
}

if (window.Reveal) {
  document.addEventListener("keydown", leaveFigure, true);
  document.addEventListener("keydown", stepFigure, true);
  if (!isPrinted) document.addEventListener("DOMContentLoaded", openAtFirstStep);
  Reveal.on("ready", ({ currentSlide }) => fitText(currentSlide));
  Reveal.on("slidechanged", ({ currentSlide }) => fitText(currentSlide));
  Reveal.on("pdf-ready", () => document.querySelectorAll("section.slide").forEach(fitText));
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
