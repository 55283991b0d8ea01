"""Writes what the commands of the stories print into the pages, English and Chinese."""

from tests.docs.stories.pages import STORIES, written

for path in sorted(STORIES.glob("*.md")):
    path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
