"""Pictures of the pages: they are there for light and dark pages, are what their commands draw, and are used."""

from __future__ import annotations

import posixpath
import re
from xml.etree import ElementTree as ET

import pytest

from benchmarks import task_chart
from scripts.drawings import __main__ as drawings
from scripts.drawings.canvas import THEMES, WIDTH, Drawing
from scripts.drawings.ideas import borders_after
from scripts.drawings.streams import ARRIVALS, LATENESS, rows_of, watermarks
from scripts.site_pictures import PICTURE, two_images
from tests.packaging.examples import ROOT

IMAGES = ROOT / "docs" / "images"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")))
DRAWN = {drawing.name: drawing for drawing in (draw() for draw in drawings.DRAWINGS)}
DRAWN["tasks"] = task_chart.chart(task_chart.Figures.read(task_chart.load(task_chart.FIGURES)))


def pictures():
    """Every picture of a page: the page, and the paths of its images from the root of the project."""
    for page in PAGES:
        for picture in PICTURE.finditer((ROOT / page).read_text(encoding="utf-8")):
            folder = posixpath.dirname(page)
            yield (
                page,
                *(posixpath.normpath(posixpath.join(folder, picture[one])) for one in ("light", "dark")),
                picture["alt"],
            )


def test_every_picture_is_there_for_light_and_dark_pages_and_says_what_it_shows():
    found = list(pictures())
    assert len(found) > 10
    wrong = [
        (page, light, dark)
        for page, light, dark, alt in found
        if not (ROOT / light).is_file()
        or not (ROOT / dark).is_file()
        or light.replace("-light.", "-dark.") != dark
        or len(alt) < 20
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_picture_of_another_form(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text.count("<picture>") == len(PICTURE.findall(text))
    assert "<img" not in PICTURE.sub("", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("theme", THEMES)
def test_a_file_is_what_its_command_draws(name, theme):
    """`python -m scripts.drawings` and `python -m benchmarks.task_chart` write them."""
    assert (IMAGES / f"{name}-{theme}.svg").read_text(encoding="utf-8") == DRAWN[name].svg(theme)


@pytest.mark.parametrize("name", DRAWN)
def test_every_drawing_is_on_a_page(name):
    assert any(light == f"docs/images/{name}-light.svg" for _, light, _, _ in pictures())


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_is_whole(name):
    """It can be read as XML, says what it shows, and begins nothing outside of its area."""
    root = ET.fromstring(DRAWN[name].svg("light"))  # noqa: S314 - written by this project
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title")
    assert len(root.findtext(f"{space}desc") or "") > 40
    height = float(root.attrib["height"])
    texts = root.findall(f"{space}text")
    assert len(texts) > 5
    outside = [
        text.text
        for text in texts
        if not (0 < float(text.attrib["x"]) < WIDTH and 0 < float(text.attrib["y"]) < height)
    ]
    assert outside == []


def test_a_colour_that_there_is_not_is_named():
    drawing = Drawing("x", 10, "t", "d")
    drawing.dot(1, 1, fill="mauve")
    with pytest.raises(ValueError, match=r"x: no such colours: mauve; there are ground, frame"):
        drawing.svg("dark")


def test_the_themes_have_the_same_colours():
    assert THEMES["light"].keys() == THEMES["dark"].keys()


def test_pictures_become_two_images_on_the_site():
    dark = '<source media="(prefers-color-scheme: dark)" srcset="../images/a-dark.svg">'
    text = (
        f'Before.\n\n<picture>\n  {dark}\n  <img src="../images/a-light.svg" alt="A drawing.">\n</picture>\n\nBehind.\n'
    )
    images = "![A drawing.](../images/a-light.svg#only-light)\n![](../images/a-dark.svg#only-dark)"
    assert two_images(text) == f"Before.\n\n{images}\n\nBehind.\n"
    assert two_images("no picture") == "no picture"


# -- what drawings show ------------------------------------------------------------------------------------------------


def test_the_drawing_of_lateness_follows_the_join():
    import slidejoin as sj

    join = sj.StreamJoin(on="l.k = r.k", window=sj.TimeWindow(60, on="ts", lateness=LATENESS))
    marks, late = [], []
    for side, time in ARRIVALS:
        before = join.stats.late_rows
        join.push(**{side: {"k": [1], "ts": [time]}})
        marks.append(join.stats.watermark)
        late.append(join.stats.late_rows > before)
    _, drawn = watermarks(ARRIVALS, LATENESS)
    assert marks == drawn
    shown = [mark is not None and time < mark for (_, time), mark in zip(ARRIVALS, [None, *drawn], strict=False)]
    assert late == shown
    assert sum(late) == 1


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "left_semi", "left_anti"])
def test_the_drawing_of_join_types_follows_the_join(how):
    import slidejoin as sj

    keys = {"1": 1, "2": 9, "3": 2}, {"a": 1, "b": 2, "c": 7}
    on = "l.key = r.key OR l.key = 1 AND r.key = 2"
    join = sj.StreamJoin(on=on, window=sj.CountWindow(10), how=how)
    left, right = ({"name": list(one), "key": list(one.values())} for one in keys)
    rows = [*join.push(left=left, right=right).to_pylist(), *join.finish().to_pylist()]
    got = {(row["name"], row.get("name_right", "")) for row in rows}
    assert got == set(rows_of(how))


def test_borders_make_partitions_even():
    assert borders_after([0, 10, 20], [30, 10]) == [0, pytest.approx(20 / 3), 20]
    assert borders_after([0, 10, 20, 30], [5, 5, 5]) == pytest.approx([0, 10, 20, 30])
