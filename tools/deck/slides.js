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

if (window.Reveal) {
  document.addEventListener("keydown", leaveFigure, true);
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
