"""Every figure on a page without a kernel, in a real browser, in both themes and at two widths.

Screenshots are kept in `build/screens/figures/`.
"""

import itertools
import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from kafkagroups.course.figures.catalog import FIGURES
from kafkagroups.course.figures.figure import page_script
from tests.course.figures import list_labels

ROOT = Path(__file__).parents[2]
SCREENS = ROOT / "build" / "screens" / "figures"
# To draw every scene of a large figure takes minutes. So the test draws scenes at equal distances, and the last one.
MOST_SCENES = 40
MOST_STEPS = 6

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=sorted(FIGURES))
def named_figure(request):
    return request.param, FIGURES[request.param]()


def open_figure(browser, figure, scheme, width, reduced_motion="reduce"):
    """Open a page with only this figure. The page has no network."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion=reduced_motion
    )
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.problems.append(request.url))
    page.set_content(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>figure</title></head>'
        f"<body><main><h1>figure</h1>{figure.page_html()}</main>{page_script()}</body></html>"
    )
    page.locator(".kg-figure svg").wait_for()
    return page


def read_labels(page):
    return page.evaluate("() => [...document.querySelectorAll('.kg-figure svg text')].map(text => text.textContent)")


def choose_scenes(figure):
    """Return the options of the scenes that a test draws."""
    scenes = list(itertools.product(*(range(len(control.options)) for control in figure.content.controls)))
    distance = -(-len(scenes) // MOST_SCENES)
    return list(dict.fromkeys([*scenes[::distance], scenes[-1]]))


def choose(page, control, option):
    """Choose an option as a user with a keyboard does: with arrow keys from the option that is shown."""
    if len(control.options) < 2:
        return
    box = page.get_by_role("combobox", name=control.label, exact=True)
    if not control.is_sequence and box.count():
        box.select_option(index=option)
        return
    if control.is_sequence:
        slider = page.get_by_role("slider", name=control.label, exact=True)
        slider.focus()
        shown = int(slider.input_value())
    else:
        radios = page.get_by_role("group", name=control.label, exact=True).get_by_role("radio")
        shown = radios.evaluate_all("radios => radios.findIndex(radio => radio.checked)")
        radios.nth(shown).focus()
    for _ in range(abs(option - shown)):
        page.keyboard.press("ArrowRight" if option > shown else "ArrowLeft")


WATCH_A_STEP = """async (duration) => {
    const svg = document.querySelector('.kg-figure svg');
    const read = () => Object.fromEntries([...svg.querySelectorAll(':scope > g[data-key]')].map((group) => {
        const { e, f } = new DOMMatrix(getComputedStyle(group).transform);
        return [group.dataset.key, [e, f, Number(getComputedStyle(group).opacity)]];
    }));
    const states = [read()];
    [...document.querySelectorAll('.kg-figure button')].find((button) => button.textContent === 'next').click();
    const leaving = svg.querySelectorAll('.kg-leaves').length;
    const end = performance.now() + duration;
    while (performance.now() < end) {
        await new Promise(requestAnimationFrame);
        states.push(read());
    }
    return { states, leaving, left: svg.querySelectorAll('.kg-leaves').length };
}"""


def test_marks_move_come_and_go(browser, named_figure):
    """A mark is seen between its two places, and new and old ones fade, unless the reader wants no motion."""
    _, figure = named_figure
    (sequence,) = [each for each in figure.content.controls if each.is_sequence][:1] or [None]
    if sequence is None or len(sequence.options) < 2:
        return
    changes = {}
    for motion in ("no-preference", "reduce"):
        page = open_figure(browser, figure, "light", 1280, reduced_motion=motion)
        changes[motion] = 0
        for _ in range(min(MOST_STEPS, len(sequence.options) - 1 - sequence.initial)):
            step = page.evaluate(WATCH_A_STEP, 2_800 if motion == "no-preference" else 50)
            before, *between, after = step["states"]
            moved = {key for key in before.keys() & after.keys() if before[key][:2] != after[key][:2]}
            new = after.keys() - before.keys()
            seen_between = {
                key for key in moved for state in between if state[key][:2] not in (before[key][:2], after[key][:2])
            }
            faint = {key for key in new for state in between if state[key][2] < after[key][2]}
            changes[motion] += len(moved)
            assert seen_between == (moved if motion == "no-preference" else set())
            assert faint == (new if motion == "no-preference" else set())
            assert step["leaving"] == (len(before.keys() - after.keys()) if motion == "no-preference" else 0)
            assert step["left"] == 0
        page.context.close()
    assert changes["no-preference"] == changes["reduce"]


def test_a_sequence_plays_and_pauses(browser):
    """The button plays the steps from the first to the last one, wherever the figure opens. A step by hand ends it."""
    figure = FIGURES["two-maps"]()
    page = open_figure(browser, figure, "light", 1280)
    page.clock.install()
    place = page.locator(".kg-place")
    play = page.get_by_role("button", name="play")
    play.click()
    (steps, _) = figure.content.controls
    assert steps.initial > 0
    for step in range(1, len(steps.options) + 1):
        assert place.inner_text().startswith(f"step {step} of"), step
        page.clock.run_for(find_pause(page))
    play.click()
    assert place.inner_text().startswith("step 1 of")
    page.get_by_role("button", name="next").click()
    page.clock.run_for(9_000)
    assert place.inner_text().startswith("step 2 of")
    assert play.count() == 1
    page.context.close()


def find_pause(page):
    """Return how long a step stays: as long as its caption takes to read, from 1.8 to 4 seconds."""
    return min(max(40 * len(page.locator(".kg-caption").inner_text()), 1_800), 4_000)


def test_a_picture_needs_no_scrolling_on_a_phone(browser, named_figure):
    """There, its parts stand closer together or below each other, and all of them are seen at every step."""
    _, figure = named_figure
    page = open_figure(browser, figure, "light", 390)
    page.wait_for_selector(".kg-folded")
    control = next(control for control in figure.content.controls if control.is_sequence)
    for step in range(len(control.options)):
        choose(page, control, step)
        outside = page.evaluate(
            """() => {
                const picture = document.querySelector('.kg-picture').getBoundingClientRect();
                return [...document.querySelectorAll('.kg-figure svg .kg-mark')].filter(mark => {
                    const { left, right, top, bottom } = mark.getBoundingClientRect();
                    const isInside = left >= picture.left - 2 && right <= picture.right + 2;
                    return !isInside || top < picture.top - 2 || bottom > picture.bottom + 2;
                }).map(mark => mark.dataset.key);
            }"""
        )
        assert outside == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    page.context.close()


def test_the_parts_of_a_picture_stand_below_each_other_on_a_phone(browser):
    """On a phone, the axis of the epochs stands below the partitions, and both are seen. Elsewhere, beside them."""
    page = open_figure(browser, FIGURES["epochs"](), "light", 390)
    for width, is_below in ((390, True), (1280, False)):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"() => Boolean(document.querySelector('.kg-folded')) === {str(is_below).lower()}")
        keys = ("cell loyalty-2 orders-2", "token group")
        cell, token = (page.locator(f'[data-key="{key}"] rect').bounding_box() for key in keys)
        assert (token["y"] > cell["y"] + cell["height"]) == is_below
        assert (token["x"] < cell["x"] + cell["width"]) == is_below
    page.context.close()


def test_no_text_leaves_its_box(browser, named_figure):
    """A text that is wider in this browser's font gets narrower letters, so no text leaves its box."""
    _, figure = named_figure
    page = open_figure(browser, figure, "light", 800)
    wide = page.evaluate(
        """() => [...document.querySelectorAll('.kg-figure .kg-box')].flatMap(box => {
            const frame = box.querySelector('rect').getBoundingClientRect();
            return [...box.querySelectorAll('text')]
                .filter(text => text.getBoundingClientRect().width > frame.width + 1)
                .map(text => text.textContent);
        })"""
    )
    assert wide == []
    page.context.close()


def test_a_step_is_told(browser, named_figure):
    """A screen reader says the lines, the caption and what is new. Where a figure opens, it says nothing."""
    _, figure = named_figure
    page = open_figure(browser, figure, "light", 1280)
    spoken = page.locator(".kg-spoken")
    assert spoken.get_attribute("aria-live") == "polite"
    assert spoken.text_content() == ""
    before = page.locator(".kg-text").text_content().splitlines()
    button = page.get_by_role("button", name="previous" if figure.content.controls[0].initial else "next").first
    button.click()
    told = spoken.text_content()
    news = [line for line in page.locator(".kg-text").text_content().splitlines() if line not in before]
    lines = page.locator("p.kg-line").all_text_contents()
    for words in (*lines, page.locator("p.kg-caption").last.text_content(), *news[:6]):
        assert words in told
    page.context.close()


def test_what_is_reached_by_keyboard_has_a_name_and_a_visible_focus(browser, named_figure):
    """What the Tab key reaches has a name for a screen reader, and a frame while it has the focus."""
    _, figure = named_figure
    page = open_figure(browser, figure, "light", 390)
    reached = []
    for _ in range(20):
        page.keyboard.press("Tab")
        name = page.evaluate(NAME_FOCUS)
        if name is None:
            break
        reached.append(name)
    assert "" not in reached
    assert "this picture as text" in reached
    page.context.close()


NAME_FOCUS = """() => {
    const element = document.activeElement;
    if (element === document.body) return null;
    const style = getComputedStyle(element);
    if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) return '';
    return element.ariaLabel || element.labels?.[0]?.textContent || element.textContent;
}"""
LOW_CONTRASTS = """() => {
    const parse = (colour) => {
        const [red, green, blue, alpha = 1] = colour.match(/[\\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
        return [red, green, blue, alpha];
    };
    const mix = (above, below) => [0, 1, 2].map((part) => above[part] * above[3] + below[part] * (1 - above[3]));
    const measure = (colour) => {
        const [red, green, blue] = colour.map((part) =>
            part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4
        );
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const compare = (one, other) => {
        const [dark, bright] = [measure(one), measure(other)].sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05);
    };
    const page = parse(getComputedStyle(document.querySelector('.kg-figure')).backgroundColor);
    const rectangles = [...document.querySelectorAll('.kg-figure svg g[data-key] > rect')];
    const findBackground = (mark) => {
        const { left, right, top, bottom } = mark.getBoundingClientRect();
        const [x, y] = [(left + right) / 2, (top + bottom) / 2];
        return rectangles.reduce((below, rectangle) => {
            const box = rectangle.getBoundingClientRect();
            const isBelow = rectangle.compareDocumentPosition(mark) & Node.DOCUMENT_POSITION_FOLLOWING;
            if (!isBelow || x < box.left || x > box.right || y < box.top || y > box.bottom) return below;
            const { fill, fillOpacity, opacity } = getComputedStyle(rectangle);
            const [red, green, blue, alpha] = parse(fill);
            return mix([red, green, blue, alpha * fillOpacity * opacity], below);
        }, page.slice(0, 3));
    };
    const isLow = (mark, name, least) => {
        const behind = findBackground(mark);
        const { opacity } = getComputedStyle(mark.closest('g[data-key]'));
        return compare(mix([...parse(getComputedStyle(mark)[name]).slice(0, 3), opacity], behind), behind) < least;
    };
    const list = (selector, name, least) => [...document.querySelectorAll(`.kg-figure svg ${selector}`)]
        .filter((mark) => isLow(mark, name, least))
        .map((mark) => mark.closest('g[data-key]').dataset.key);
    const parts = [...list('.kg-tone-muted > line', 'stroke', 3), ...list('.kg-solid > rect', 'fill', 3)];
    return [...list('text', 'fill', 4.5), ...parts];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_word_of_a_picture_stands_out(browser, named_figure, scheme):
    """At each step, a text has a contrast of 4.5 with what is behind it, a line or a bar one of 3. axe sees no SVG."""
    _, figure = named_figure
    page = open_figure(browser, figure, scheme, 800)
    slider = page.get_by_role("slider").first
    for step in range(len(next(control for control in figure.content.controls if control.is_sequence).options)):
        slider.fill(str(step))
        assert page.evaluate(LOW_CONTRASTS) == [], step
    page.context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 700)])
def test_a_figure_works_by_keyboard_and_has_no_barrier(browser, named_figure, scheme, width):
    """Each control reaches each scene, the drawn labels are the scene's, the height stays, and axe finds nothing."""
    name, figure = named_figure
    page = open_figure(browser, figure, scheme, width)
    heights = set()
    controls = figure.content.controls
    for options in choose_scenes(figure):
        # A choice that jumps comes first, because it also changes another control.
        for control, option in sorted(zip(controls, options, strict=True), key=lambda each: not each[0].jumps):
            choose(page, control, option)
        scene = figure.content.scenes[options]
        assert read_labels(page) == list_labels(scene.marks), options
        assert page.locator(".kg-caption").inner_text() == scene.caption
        assert page.locator(".kg-text").text_content() == "\n".join(scene.text)
        heights.add(round(page.locator(".kg-figure svg").bounding_box()["height"]))
        heights.add(-round(page.locator(".kg-captions").bounding_box()["height"]))
    assert len(heights) == 2, "the picture or its caption changes its height"
    SCREENS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENS / f"{name}-{scheme}-{width}.png", full_page=True)
    result = Axe().run(page)
    assert result.violations_count == 0, result.generate_report()
    assert page.problems == []
    page.context.close()


def test_a_sequence_does_not_wrap(browser, named_figure):
    """The first scene stands first. "previous" at the first step and "next" at the last step change nothing."""
    _, figure = named_figure
    sequences = [control for control in figure.content.controls if control.is_sequence and len(control.options) > 1]
    page = open_figure(browser, figure, "light", 1280)
    assert read_labels(page) == list_labels(figure.first_scene.marks)
    for control in sequences:
        group = page.get_by_role("group", name=control.label, exact=True)
        for _ in range(control.initial + 1):
            group.get_by_role("button", name="previous").click(force=True)
        assert group.locator(".kg-place").inner_text().startswith(f"{control.label} 1 of ")
        for _ in range(len(control.options) + 1):
            group.get_by_role("button", name="next").click(force=True)
        assert re.search(rf"^{re.escape(control.label)} (\d+) of \1:", group.locator(".kg-place").inner_text())
    page.context.close()
