// Draws the scenes of a figure and switches between them. It computes no scene and decodes nothing: figure.py does.
// The same module runs in JupyterLab (as an anywidget, `render`) and on a page without a kernel (`mountAll`).

const SVG = "http://www.w3.org/2000/svg";
const LINE_HEIGHT = 1.3; // As in marks.py, like the next one.
const CORNER = 6;
const EDGE = 2; // Around all marks, so that the outlines of the outermost are whole.
const LEAST_DOT = 8; // A dot stays round, and at least so wide, in a narrow column.
const HATCH = 9; // The distance of the lines.
const LEAST_SIZE = 12; // The least size of a text in a narrow column, in pixels.
const MOST_SEGMENTS = 4; // More alternatives than these are a drop-down list.
const LONG_OPTIONS = 80; // Alternatives with more characters than these stand in two columns.
const MOST_NEWS = 6; // A screen reader says no more changes of a step than these.
const TELLING_MS = 500; // What a step comes to is said after this time at the latest.
const CHARACTER_MS = 40; // While a sequence plays, a step stays as long as its caption takes to read,
const STEP_MS = [1800, 4000]; // but at least and at most this long.
const LEAVE_MS = 250; // As in figure.css, like the next two.
const MOVE_MS = 500;
const FADE_MS = 300;
const MOST_MS = 1300; // All motion of a step, before the last style and text fade in.
const CHARACTER_WIDTH = 0.61; // As in marks.py.
const READABLE = 612; // The least width of a picture whose texts are large enough. Below, it has its narrow layout.

const canvas = document.createElement("canvas").getContext("2d"); // Measures texts that are not shown yet, too.
let lastId = 0;

function makeElement(parent, name, attributes = {}, text = null) {
  const element = document.createElementNS(name === "svg" ? SVG : parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  parent.append(element);
  return element;
}

// Theme ------------------------------------------------------------------------------------------------------------

function pageIsDark() {
  const jupyter = document.body.dataset.jpThemeLight;
  if (jupyter) return jupyter === "false";
  const site = document.documentElement.dataset.theme;
  if (site === "dark" || site === "light") return site === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function followTheme(root) {
  const update = () => root.classList.toggle("kg-dark", pageIsDark());
  const observer = new MutationObserver(update);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light"] });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", update);
  update();
  return () => {
    observer.disconnect();
    media.removeEventListener("change", update);
  };
}

// Marks ------------------------------------------------------------------------------------------------------------

function drawText(parent, x, y, text, mark) {
  const attributes = { x, y, "font-size": mark.size, "text-anchor": mark.anchor ?? "middle", "xml:space": "preserve" };
  if (mark.is_bold) attributes["font-weight"] = "bold";
  return makeElement(parent, "text", attributes, text);
}

// A text that is wider than its room gets narrower letters, because the fonts of browsers differ.
function fitText(shape, mark, room = 1.15 * shape.textContent.length * mark.size * CHARACTER_WIDTH) {
  canvas.font = `${mark.is_bold ? "bold " : ""}${mark.size}px ${getComputedStyle(shape).fontFamily}`;
  if (canvas.measureText(shape.textContent).width > room) {
    shape.setAttribute("textLength", room);
    shape.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
}

function findHatch({ width, height }) {
  let lines = "";
  for (let start = HATCH; start < width + height; start += HATCH) {
    const [left, right] = [Math.max(0, start - height), Math.min(width, start)];
    lines += `M${left} ${start - left}L${right} ${start - right}`;
  }
  return lines;
}

// A rectangle that was there before stays, so the style sheet changes its size and its colours step by step.
function drawBox(group, box, rectangle) {
  rectangle ??= makeElement(group, "rect");
  rectangle.setAttribute("rx", Math.min(CORNER, box.width / 2, box.height / 2));
  rectangle.setAttribute("width", box.width);
  rectangle.setAttribute("height", box.height);
  rectangle.style.strokeDasharray = box.is_dashed ? "3 3" : "3 0"; // No "none": the dashes come step by step.
  if (box.is_gone) {
    const isNew = group.mark && !(group.mark.is_gone && group.mark.width === box.width);
    const className = isNew ? "kg-late" : "";
    makeElement(group, "path", { d: findHatch(box), class: className, "clip-path": `inset(0 round ${CORNER}px)` });
  }
  const lines = box.lines ?? [];
  const first = box.height / 2 - ((lines.length - 1) * box.size * LINE_HEIGHT) / 2 + box.size * 0.35;
  const texts = lines.map((line, number) => drawText(group, box.width / 2, first + number * box.size * LINE_HEIGHT, line, box));
  texts.forEach((text) => fitText(text, box, box.width - 3)); // The font of the first line depends on whether there are others.
}

function drawArrow(group, arrow) {
  const across = arrow.x2 - arrow.x1;
  const down = arrow.y2 - arrow.y1;
  const line = makeElement(group, "line", { x1: 0, y1: 0, x2: across, y2: down });
  if (arrow.is_dashed) line.setAttribute("stroke-dasharray", "3 3");
  if (!arrow.has_head) return;
  const length = Math.hypot(across, down) || 1;
  const [x, y] = [across / length, down / length];
  const [baseX, baseY] = [across - 7 * x, down - 7 * y];
  const corners = [[across, down], [baseX - 3.5 * y, baseY + 3.5 * x], [baseX + 3.5 * y, baseY - 3.5 * x]];
  makeElement(group, "polygon", { points: corners.map((corner) => corner.join(",")).join(" "), class: "kg-head" });
}

const placeOf = (mark) => [mark.x ?? mark.x1, mark.y ?? mark.y1];
const listTexts = (group) => [...group.querySelectorAll("text:not(.kg-old)")];
const joinTexts = (group) => listTexts(group).map((text) => text.textContent).join("\n");

// A text that changes waits until marks have left and moved: first the cause, then what it changes. A text that only
// gets another colour stays. What the step before has emphasized is calm at once.
function drawMark(group, mark, waitMs, pace) {
  group.style.setProperty("--delay", `${pace * (mark.delay ?? 0)}s`);
  group.style.setProperty("--duration", `${pace * (mark.duration ?? 0)}s`);
  const isCalm = group.mark?.tone === "new" && mark.tone !== "new";
  const old = waitMs ? listTexts(group) : [];
  const styles = old.map((text) => getComputedStyle(text)).map(({ fill, stroke, strokeWidth }) => ({ fill, stroke, strokeWidth }));
  const rectangle = mark.kind === "box" ? group.querySelector("rect") : null;
  for (const child of [...group.children]) if (child !== rectangle) child.remove();
  const names = ["kg-mark", `kg-${mark.kind}`, `kg-tone-${mark.tone}`, mark.hue && `kg-hued ${mark.hue}`, isCalm && "kg-calm"];
  const stays = group.mark && String(placeOf(group.mark)) === String(placeOf(mark));
  if (mark.duration) names.push("kg-slow");
  else if (stays) names.push("kg-stays");
  for (const name of ["dashed", "faint", "gone", "hollow", "solid"]) if (mark[`is_${name}`]) names.push(`kg-${name}`);
  if (mark.kind === "box" && !mark.lines?.length) names.push("kg-empty");
  group.setAttribute("class", names.filter(Boolean).join(" "));
  const [x, y] = placeOf(mark);
  group.style.transform = `translate(${x}px, ${y}px)`;
  if (mark.kind === "box") drawBox(group, mark, rectangle);
  else if (mark.kind === "arrow") drawArrow(group, mark);
  else (mark.text ?? "").split("\n").forEach((line, number) => fitText(drawText(group, 0, number * mark.size * LINE_HEIGHT, line, mark), mark));
  if (!waitMs || !group.mark) return;
  const texts = listTexts(group);
  const isSame = (number) => texts.length === old.length && texts[number].textContent === old[number].textContent;
  texts.forEach((text, number) => {
    if (isSame(number)) text.animate([styles[number], {}], { duration: 300, delay: isCalm ? 0 : waitMs, fill: "backwards" });
    else text.classList.add("kg-late");
  });
  for (const [number, text] of old.entries()) {
    if (isSame(number)) continue;
    Object.assign(text.style, styles[number]); // An old text keeps its colour until it goes.
    text.setAttribute("class", "kg-old");
    group.append(text);
    text.animate({ opacity: 0 }, { duration: 100, delay: waitMs, fill: "forwards" }).onfinish = () => text.remove();
  }
}

// Narrow columns -----------------------------------------------------------------------------------------------------

const isInside = ({ x, y }, box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;

const findPart = (narrow, x, y) => narrow.find(([left, top, right, bottom]) => x >= left && x < right && y >= top && y < bottom) ?? narrow.at(-1);

// In a narrow column, each part of a picture with the layout `narrow` has another place, and can be squeezed. A box that
// reaches into the part beside its own, which then stands below, has two pieces, the larger one with the words.
function narrowMarks(mark, narrow) {
  const [x, y] = placeOf(mark);
  const own = findPart(narrow, x, y);
  const right = own[2];
  const isSplit = mark.kind === "box" && right < findPart(narrow, right, y)[2] && findPart(narrow, right, y)[4][1] > own[4][1];
  const rest = isSplit ? mark.x + mark.width - right : 0;
  if (rest < 2) return [narrowMark(mark, narrow)];
  const isLarger = rest > mark.width / 2;
  const first = { ...mark, width: mark.width - rest, lines: isLarger ? [] : mark.lines };
  const second = { ...mark, key: `${mark.key} rest`, x: right, width: rest, lines: isLarger ? mark.lines : [] };
  return [first, second].map((piece) => narrowMark(piece, narrow));
}

function narrowMark(mark, narrow) {
  const move = (x, y) => {
    const [left, top, , , place, squeeze] = findPart(narrow, x, y);
    return [place[0] + (x - left) * (mark.keeps_width ? 1 : squeeze), place[1] + y - top];
  };
  const narrowed = { ...mark };
  if (mark.kind === "arrow") {
    [narrowed.x1, narrowed.y1] = move(mark.x1, mark.y1);
    [narrowed.x2, narrowed.y2] = move(mark.x2, mark.y2);
    return narrowed;
  }
  [narrowed.x, narrowed.y] = move(mark.x, mark.y);
  const squeeze = findPart(narrow, mark.x, mark.y)[5];
  if (mark.keeps_width || squeeze === 1) return narrowed;
  const [right] = measureNarrow(narrow);
  if (mark.kind === "box") {
    const box = squeezeBox(narrowed, move(mark.x + mark.width, mark.y), squeeze);
    return { ...box, x: Math.min(box.x, right - box.width) };
  }
  if (mark.anchor === "middle" && mark.size < 12) narrowed.text = mark.text?.replace(" ", "\n"); // Small words stand below each other.
  else if (mark.anchor === "start") narrowed.x -= Math.max(0, narrowed.x + mark.text.length * mark.size * CHARACTER_WIDTH - right);
  return narrowed;
}

// A box whose words get too wide has them below each other. Otherwise, it keeps its width, or some of the letters.
function squeezeBox(box, [right, y], squeeze) {
  if (box.width === box.height && box.width <= 2 * CORNER) return squeezeDot(box, squeeze);
  const width = y === box.y && right > box.x ? right - box.x : box.width * squeeze;
  const isTight = (texts, size) => texts.some((text) => text.length * size * CHARACTER_WIDTH > width);
  const lines = box.short && isTight(box.lines ?? [], box.size) ? box.short.split("\n") : (box.lines ?? []);
  if (!isTight(lines, box.size)) return { ...box, width, lines };
  const stacked = lines.join("").length < 3 ? [...lines.join("")] : wrapTexts(lines, (text) => isTight([text], 11));
  if (!isTight(stacked, 11) && stacked.length * 11 * LINE_HEIGHT <= box.height + 3) return { ...box, width, lines: stacked, size: 11 };
  if (box.is_bold) return { ...box, x: box.x - Math.min((box.width - width) / 2, 6) };
  const room = Math.floor(width / (box.size * CHARACTER_WIDTH)) - 1;
  return { ...box, width, lines: room > 1 ? lines.map((line) => (line.length > room + 1 ? `${line.slice(0, room)}…` : line)) : [] };
}

function squeezeDot(dot, squeeze) {
  const width = Math.min(dot.width, Math.max(dot.width * squeeze, LEAST_DOT));
  return { ...dot, width, height: width, x: dot.x + (dot.width * squeeze - width) / 2, y: dot.y + (dot.height - width) / 2 };
}

function wrapTexts(texts, isTight) {
  return texts.flatMap((text) => {
    const lines = [];
    for (const word of text.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`;
      if (lines.length && !isTight(longer)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines;
  });
}

function measureNarrow(narrow) {
  const rights = narrow.map(([left, , right, , place, squeeze]) => place[0] + (right - left) * squeeze);
  const bottoms = narrow.map(([, top, , bottom, place]) => place[1] + bottom - top);
  return [Math.max(...rights), Math.max(...bottoms)];
}

const makeViewBox = (width, height) => `${-EDGE} ${-EDGE} ${width + 2 * EDGE} ${height + 2 * EDGE}`;

// A mark whose successor comes to the same place waits until it is there.
function leave(group, waitMs = 0) {
  delete group.dataset.key;
  group.classList.add("kg-leaves");
  if (waitMs) group.style.transition = `opacity 0.1s ${waitMs}ms`;
  setTimeout(() => group.remove(), waitMs ? waitMs + 100 : LEAVE_MS);
}

// A new box with an origin is a copy: it starts in the middle of that mark, no wider than it (or small, at the beginning
// of an arrow), and moves to its own place, after the mark itself has come there.
function startAt(group, copy, origin) {
  const [x, y] = placeOf(origin);
  const { width = copy.width, height = copy.height } = origin.kind === "arrow" ? { width: 0, height: 0 } : origin;
  const scale = Math.min(1, Math.max(width, 20) / copy.width);
  group.style.transition = "none";
  group.style.transform = `translate(${x + (width - scale * copy.width) / 2}px, ${y + (height - scale * copy.height) / 2}px) scale(${scale})`;
}

function moveHome(group, copy, isLate) {
  const [x, y] = placeOf(copy);
  group.style.transition = "";
  group.style.transform = `translate(${x}px, ${y}px)`;
  group.classList.add("kg-copies");
  group.classList.toggle("kg-last", isLate);
}

// Draws the marks of a scene, and returns how many ms they take until they are there. A mark whose key was there before
// keeps its element, so the style sheet moves it. An element that is inserted again would jump, so only those in the
// wrong place are.
function drawScene(svg, marks, choose) {
  const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  const old = new Map([...svg.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]));
  const kept = new Set(marks.map((mark) => mark.key));
  const leaving = [...old].filter(([key]) => !kept.has(key)).map(([, group]) => group);
  const before = new Map([...old].map(([key, group]) => [key, group.mark]));
  const isKept = (mark) => before.has(mark.key);
  const moved = marks.filter((mark) => isKept(mark) && String(placeOf(mark)) !== String(placeOf(before.get(mark.key))));
  const present = new Map([...before, ...marks.map((mark) => [mark.key, mark])]);
  const copied = isStill || !old.size ? [] : marks.filter((mark) => !isKept(mark) && present.has(mark.origin));
  const coming = marks.filter((mark) => !isKept(mark) || moved.includes(mark));
  const arriving = new Map(coming.map((mark) => [String(placeOf(mark)), mark]));
  const findSuccessor = ({ mark }) => arriving.get(String(placeOf(mark)));
  // A copy that says the same comes after the old mark has left. Otherwise the words would stand there twice.
  const isRepeated = (group) => copied.includes(findSuccessor(group)) && joinTexts(group) === findSuccessor(group).lines?.join("\n");
  const replaced = leaving.filter((group) => group.mark.kind === "box" && findSuccessor(group) && !isRepeated(group));
  const isWaiting = leaving.length > replaced.length;
  const isMoving = moved.length + copied.length > 0;
  const movesLater = isMoving && [...moved, ...copied].every((mark) => mark.delay);
  const leaveMs = isWaiting ? LEAVE_MS : 0;
  const waitMs = isStill ? 0 : leaveMs + (isMoving ? MOVE_MS : 0);
  const untime = (mark) => JSON.stringify({ ...mark, delay: 0, duration: 0 });
  const changed = marks.filter((mark) => untime(before.get(mark.key)) !== untime(mark));
  const lengthMs = Math.max(0, ...changed.map((mark) => 1000 * ((mark.delay ?? 0) + (mark.duration ?? 0))));
  const pace = Math.min(1, (MOST_MS - waitMs) / (lengthMs || 1));
  svg.classList.toggle("kg-waits", isWaiting);
  svg.classList.toggle("kg-moves", !isStill && isMoving);
  for (const group of leaving) {
    if (isStill) group.remove();
    else leave(group, replaced.includes(group) ? (waitMs || MOVE_MS) + 1000 * pace * (findSuccessor(group).delay ?? 0) : 0);
  }
  const skip = (group) => (group && !group.dataset.key ? skip(group.nextElementSibling) : group);
  let place = skip(svg.firstElementChild);
  const groups = new Map();
  const boxes = marks.filter((mark) => mark.kind === "box" && !mark.is_hollow && mark.tone !== "page");
  for (const mark of marks) {
    const group = old.get(mark.key) ?? makeElement(svg, "g", { "data-key": mark.key });
    const isMoved = moved.includes(mark) && !mark.duration; // What moves changes when it leaves.
    const isFirst = movesLater && !mark.delay; // What has no delay waits for nothing that moves later.
    const changeMs = (isMoved || isFirst ? leaveMs : waitMs) + 1000 * pace * ((mark.delay ?? 0) + (mark.duration ?? 0));
    drawMark(group, mark, isStill ? 0 : changeMs, pace);
    group.classList.toggle("kg-moved", isMoved);
    group.classList.toggle("kg-first", isFirst);
    group.mark = mark;
    group.classList.toggle("kg-inside", mark.kind === "label" && boxes.some((box) => isInside(mark, box)));
    groups.set(mark, group);
    if (old.size && !old.has(mark.key) && !copied.includes(mark)) group.classList.add("kg-enters");
    group.onclick = mark.choice ? () => choose(...mark.choice) : null;
    group.classList.toggle("kg-clickable", Boolean(mark.choice));
    place ??= group;
    if (place === group) place = skip(group.nextElementSibling);
    else svg.insertBefore(group, place);
  }
  for (const copy of copied) startAt(groups.get(copy), copy, present.get(copy.origin));
  svg.getBoundingClientRect(); // So that the browser draws the copies at their origins first.
  for (const copy of copied) {
    const origin = present.get(copy.origin);
    moveHome(groups.get(copy), copy, moved.includes(origin) || !before.has(copy.origin));
  }
  return isStill || !old.size ? 0 : waitMs + pace * lengthMs;
}

// Returns when the last motion begins to show its end, such as the new colour of a mark.
function measureMotion(svg) {
  const ends = svg.getAnimations({ subtree: true }).map((animation) => animation.effect.getComputedTiming().endTime);
  return Math.max(0, ...ends) - FADE_MS;
}

// Controls ---------------------------------------------------------------------------------------------------------

function makeSequence(parent, control, choose) {
  const row = makeElement(parent, "div", { class: "kg-bar", role: "group", "aria-label": control.label });
  parent.prepend(row); // The alternatives stand below the steps.
  const last = control.options.length - 1;
  const makeButton = (name) => {
    const button = makeElement(row, "button", { type: "button", class: `kg-${name}` });
    return makeElement(button, "span", { class: "kg-word" }, name).parentNode; // The style sheet draws a symbol.
  };
  const play = makeButton("play");
  const previous = makeButton("previous");
  const next = makeButton("next");
  const slider = makeElement(row, "input", { type: "range", min: 0, max: last, step: 1, "aria-label": control.label });
  const place = makeElement(row, "span", { class: "kg-place" });
  let shown = null;
  let timer = null;
  let isTouched = false; // A figure opens where there is something to see, but its story begins at the first step.
  const go = (option, isFresh) => (option >= 0 && option <= last && choose(control.name, option, isFresh)) || 0;
  const wait = (ms) => (timer = setTimeout(advance, ms));
  const setWord = (word) => {
    play.className = `kg-play kg-can-${word}`;
    play.firstChild.textContent = word;
  };
  const stop = () => {
    clearTimeout(timer);
    timer = null;
    setWord("play");
  };
  const advance = () => {
    if (!row.isConnected || shown === last) return stop();
    wait(go(shown + 1));
    if (shown === last) stop();
  };
  play.onclick = () => {
    if (timer) return stop();
    setWord("pause");
    const begins = shown === last || (shown && !isTouched);
    wait(go(begins ? 0 : shown + 1, begins));
  };
  const goAndStop = (option) => {
    stop();
    go(option);
  };
  previous.onclick = () => goAndStop(shown - 1);
  next.onclick = () => goAndStop(shown + 1);
  slider.oninput = () => goAndStop(Number(slider.value));
  return (option, words) => {
    isTouched ||= shown !== null && shown !== option;
    shown = option;
    slider.value = option;
    slider.style.setProperty("--done", `${(100 * option) / last}%`);
    slider.setAttribute("aria-valuetext", words || control.options[option]);
    previous.setAttribute("aria-disabled", option === 0);
    next.setAttribute("aria-disabled", option === last);
    place.textContent = `${control.label} ${option + 1} of ${last + 1}: ${words || control.options[option]}`;
  };
}

function makeAlternatives(parent, control, choose) {
  lastId += 1;
  if (control.options.length > MOST_SEGMENTS) {
    const row = makeElement(parent, "div", { class: "kg-row" });
    makeElement(row, "label", { class: "kg-label", for: `kg-${lastId}` }, control.label);
    const list = makeElement(row, "select", { id: `kg-${lastId}` });
    control.options.forEach((option, number) => makeElement(list, "option", { value: number }, option));
    list.onchange = () => choose(control.name, Number(list.value));
    return (option) => (list.value = option);
  }
  const row = makeElement(parent, "fieldset", { class: "kg-row" });
  makeElement(row, "legend", { class: "kg-label" }, control.label);
  const segments = makeElement(row, "div", { class: `kg-segments${control.options.join("").length > LONG_OPTIONS ? " kg-long" : ""}` });
  segments.style.setProperty("--longest", Math.max(...control.options.map((option) => option.length)));
  const name = `kg-${lastId}`;
  const buttons = control.options.map((option, number) => {
    const label = makeElement(segments, "label");
    const button = makeElement(label, "input", { type: "radio", name, value: number });
    label.append(option);
    button.onchange = () => choose(control.name, number);
    return button;
  });
  return (option) => (buttons[option].checked = true);
}

function makeFreeInput(parent, freeInput, send, typed) {
  lastId += 1;
  const row = makeElement(parent, "form", { class: "kg-row" });
  makeElement(row, "label", { class: "kg-label", for: `kg-${lastId}` }, freeInput.label);
  const attributes = { id: `kg-${lastId}`, type: "text", placeholder: freeInput.example, autocomplete: "off" };
  const field = makeElement(row, "input", attributes);
  field.value = typed;
  makeElement(row, "button", { type: "submit" }, "show");
  // In a cell, JupyterLab cancels the line break of Enter, and with it the browser's own submission of the form.
  field.onkeydown = (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    row.requestSubmit();
  };
  row.onsubmit = (event) => {
    event.preventDefault();
    send(field.value);
  };
  return field;
}

// Text around the picture -------------------------------------------------------------------------------------------

// Returns the elements of the lines. The longest texts stand invisibly in the same place, so the height stays constant.
function makeText(parent, name, texts) {
  const room = makeElement(parent, "div", { class: `${name}s` });
  const longest = [...new Set(texts.map((lines) => lines.join("\n")))].sort((a, b) => b.length - a.length);
  for (const text of longest.slice(0, 12)) {
    const ghost = makeElement(room, "div", { class: "kg-ghost", "aria-hidden": "true" });
    for (const line of text.split("\n")) makeElement(ghost, "p", {}, line);
  }
  const shown = makeElement(room, "div");
  return texts[0].map(() => makeElement(shown, "p", { class: name }));
}

function makeLegend(parent, legend) {
  const row = makeElement(parent, "div", { class: "kg-legend" });
  for (const key of legend) {
    const entry = makeElement(row, "span");
    const names = ["dashed", "gone", "hollow", "solid"].filter((name) => key[`is_${name}`]).map((name) => `kg-${name}`);
    const style = ["kg-key", `kg-tone-${key.tone}`, key.hue && `kg-hued ${key.hue}`, key.width === key.height && "kg-round", ...names].filter(Boolean).join(" ");
    makeElement(entry, "span", { class: style, "aria-hidden": "true" }, (key.lines ?? []).join(""));
    entry.append(key.key);
  }
}

// What a screen reader says of a step: the lines and the caption, and what is new in the picture.
function tellStep(scene, before) {
  const news = scene.text.filter((line) => !before.includes(line));
  const more = news.length > MOST_NEWS ? [`and ${news.length - MOST_NEWS} more`] : [];
  const told = news.length ? [`New in the picture: ${[...news.slice(0, MOST_NEWS), ...more].join("; ")}.`] : [];
  return [...scene.lines.map((line) => `${line.text}.`), scene.caption, ...told].join(" ");
}

// A figure -----------------------------------------------------------------------------------------------------------

// Builds a figure in `root`. `send` passes a typed value to the kernel; without a kernel it is null. `before` is the
// figure that was in its place: its chosen options and the typed text stay, except where the new content answers.
function mount(root, content, send, messageText = "", before = null) {
  root.replaceChildren();
  root.classList.add("kg-figure");
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", content.title);
  makeElement(root, "div", { class: "kg-title" }, content.title);
  const view = makeElement(root, "div", { class: "kg-view" });
  const lines = makeText(view, "kg-line", content.scenes.map((scene) => scene.lines.map((line) => line.text)));
  const picture = makeElement(view, "div", { class: "kg-picture" });
  const svg = makeElement(picture, "svg", {
    viewBox: makeViewBox(content.width, content.height),
    preserveAspectRatio: "xMinYMin meet",
    role: "img",
    "aria-label": content.title,
  });
  picture.classList.toggle("kg-bytes", Boolean(content.has_bytes));
  const { width, height, narrow } = content;
  let isFolded = false;
  new ResizeObserver(() => {
    const isNarrow = picture.clientWidth > 0 && picture.clientWidth < READABLE;
    if (isNarrow === isFolded) return;
    isFolded = picture.classList.toggle("kg-folded", isNarrow);
    svg.setAttribute("viewBox", makeViewBox(...(isFolded ? measureNarrow(narrow) : [width, height])));
    draw(false);
  }).observe(picture);
  if (content.legend.length) makeLegend(view, content.legend);

  const [shownCaption] = makeText(root, "kg-caption", content.scenes.map((scene) => [scene.caption]));
  lastId += 1;
  shownCaption.id = `kg-${lastId}`;
  svg.setAttribute("aria-describedby", shownCaption.id);

  const names = content.controls.map((control) => control.name);
  const options = content.controls.map((control) => {
    const kept = control.is_answer ? undefined : before?.chosen().get(control.name);
    return Math.min(kept ?? control.initial, control.options.length - 1);
  });
  const jump = (number) => {
    const target = content.controls[number].jumps[options[number]];
    if (target) options[names.indexOf(target[0])] = target[1];
  };
  if (before) content.controls.forEach((control, number) => control.is_answer && jump(number));
  const choose = (name, option, isFresh) => {
    if (isFresh) svg.replaceChildren(); // The story begins at its first step, without what was there before.
    const number = names.indexOf(name);
    const isNext = isFresh || option === options[number] + 1;
    const old = [...options];
    options[number] = option;
    jump(number);
    const staysAtStep = content.controls.every((control, each) => !control.is_sequence || options[each] === old[each]);
    return show(content.controls[number].is_sequence ? isNext : staysAtStep);
  };

  const controls = makeElement(root, "div", { class: "kg-controls" });
  const updates = content.controls.map((control) => {
    if (control.options.length < 2) return () => {};
    return (control.is_sequence ? makeSequence : makeAlternatives)(controls, control, choose);
  });
  const field = content.free_input && send ? makeFreeInput(controls, content.free_input, send, before?.typed() ?? "") : null;
  const message = makeElement(controls, "div", { class: "kg-message", role: "status" }, messageText);

  const spoken = makeElement(root, "div", { class: "kg-spoken", "aria-live": "polite", "aria-atomic": "true" });
  const details = makeElement(root, "details");
  makeElement(details, "summary", {}, "this picture as text");
  const text = makeElement(details, "pre", { class: "kg-text", tabindex: "0", "aria-label": "this picture as text" });

  // JupyterLab's own shortcuts do not take the keys of an element with this attribute. An ancestor with it is not enough.
  for (const part of root.querySelectorAll("button, input, select, summary, [tabindex]")) {
    part.dataset.lmSuppressShortcuts = "true";
  }

  const findScene = (chosen) => {
    let index = 0;
    content.controls.forEach((control, number) => (index = index * control.options.length + chosen[number]));
    return content.scenes[index];
  };

  // Only the next step, or an alternative to this one, tells a story: what another choice changes is drawn without delay.
  function draw(isStep) {
    const marks = findScene(options).marks.map((number) => content.marks[number]);
    const leastSize = (LEAST_SIZE * (measureNarrow(narrow)[0] + 2 * EDGE)) / picture.clientWidth;
    const enlarge = (mark) => {
      const fitting = mark.kind === "box" ? mark.height / ((mark.lines ?? []).length * LINE_HEIGHT) : leastSize;
      return { ...mark, size: mark.size && Math.max(mark.size, Math.min(leastSize, fitting)) };
    };
    const placed = isFolded ? marks.flatMap((mark) => narrowMarks(mark, narrow).map(enlarge)) : marks;
    return drawScene(svg, isStep ? placed : placed.map((mark) => ({ ...mark, delay: 0, duration: 0 })), choose);
  }

  // The step's name says at once what happens. Why is said when the first marks have shown it. Until then, the texts of
  // the step before, which the picture contradicts, are pale. What comes of it, the headline, changes with the last marks.
  let telling = [];
  const tellLine = (scene, number) => {
    lines[number].textContent = scene.lines[number].text;
    lines[number].className = `kg-line kg-tone-${scene.lines[number].tone}`;
  };
  const tell = (scene) => {
    root.classList.remove("kg-telling");
    for (const number of scene.lines.keys()) if (number) tellLine(scene, number);
    shownCaption.textContent = scene.caption;
  };

  // Returns how long a sequence that plays stays at the scene.
  function show(isStep) {
    const scene = findScene(options);
    const movingMs = draw(isStep);
    telling.forEach(clearTimeout);
    root.classList.toggle("kg-telling", movingMs > 0);
    const after = (ms, act) => (ms > 0 ? setTimeout(act, ms, scene, 0) : act(scene, 0));
    telling = [after(Math.min(movingMs, TELLING_MS), tell), after(measureMotion(svg), tellLine)];
    if (text.textContent) spoken.textContent = tellStep(scene, text.textContent.split("\n"));
    text.textContent = scene.text.join("\n");
    updates.forEach((update, number) => update(options[number], scene.place));
    const [least, most] = STEP_MS;
    return Math.min(Math.max(CHARACTER_MS * scene.caption.length, least), most) + movingMs;
  }
  show(true);
  return {
    message,
    chosen: () => new Map(names.map((name, number) => [name, options[number]])),
    typed: () => field?.value ?? "",
  };
}

function render({ model, el }) {
  const root = makeElement(el, "div");
  const stopFollowing = followTheme(root);
  const send = (value) => model.send({ value });
  let figure = null;
  const build = () => {
    const hadFocus = root.contains(document.activeElement) && document.activeElement.form;
    figure = mount(root, model.get("shown"), send, model.get("message"), figure);
    if (hadFocus) root.querySelector("form input")?.focus();
  };
  model.on("change:shown", build);
  model.on("change:message", () => (figure.message.textContent = model.get("message")));
  build();
  return stopFollowing;
}

function mountAll(page) {
  for (const root of page.querySelectorAll(".kg-figure-page")) {
    const content = JSON.parse(root.querySelector("script").textContent);
    followTheme(root);
    mount(root, content, null);
  }
}

export default { render };
