"""A page in Chinese says the same as its English page, in the words that all Chinese pages use.

The words are those of README.zh.md. Whether a sentence is good Chinese is for a reader to judge.
"""

import re
from pathlib import Path

import pytest

from tests.docs.test_docs import ROOT, rows
from tests.docs.test_operations import codes

TERMS = {
    r"namespaces?": "名字空间",
    r"annotations?": "注解",
    r"labels?": "标签",
    r"profiles?": "配置档",
    r"permissions?": "权限",
    r"administrator": "管理员",
    r"nodes?": "节点",
    r"cluster": "集群",
    r"containers?": "容器",
    r"slices?": "切片",
    r"whole cards?": "整卡",
    r"planner": "规划器",
    r"scheduler": "调度",
    r"warnings?": "警告",
    r"requirements?": "要求",
    r"refused?|refuses": "拒绝",
    r"opted in": "启用",
    r"out of scope": "不在范围内",
    r"certain": "确定",
    r"reported?": "报告",
}
"""English words, as regular expressions, and the Chinese word that stands where one of them does."""
OTHER_WORDS = ("命名空间", "标注", "批注", "配置文件", "显卡", "整张卡", "分片", "告警", "计划器", "准许")
"""Other translations of these terms, which no page uses: a reader would take them for other things."""
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`[^`]*`|\]\([^)]*\)")
_HAN = "\u4e00-\u9fff"
_CROWDED = re.compile(rf"[{_HAN}][A-Za-z0-9`]|[A-Za-z0-9`][{_HAN}]")
_NARROW = re.compile(rf"[{_HAN}][,;:?!]|[,;:?!][{_HAN}]")
CHINESE = sorted([*ROOT.glob("*.zh.md"), *(ROOT / "docs").rglob("*.zh.md")])


class Pair:
    """A page in both languages.

    Args:
        path: The Chinese page.
    """

    def __init__(self, path: Path) -> None:
        self.names = (path.name.replace(".zh.md", ".md"), path.name)
        self.english, self.chinese = ((path.parent / name).read_text(encoding="utf-8") for name in self.names)


@pytest.fixture(params=CHINESE, ids=lambda path: path.name)
def pair(request: pytest.FixtureRequest) -> Pair:
    """Each page that there is in Chinese."""
    return Pair(request.param)


def prose(page: str) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page)


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each code block, without comments."""
    return [(language, re.sub(r" +# .*", "", body)) for language, body in _FENCE.findall(page)]


def links(page: str) -> list[str]:
    """The pages to which a page leads, without the language and the heading."""
    return [link.partition("#")[0].replace(".zh.md", ".md") for link in re.findall(r"\]\(([^)]+)\)", prose(page))]


def missing(english: str, chinese: str) -> list[str]:
    """The Chinese terms that a page lacks although the English page has the English ones."""
    text = _NAMED.sub("", prose(english))
    return [term for word, term in TERMS.items() if re.search(rf"\b(?:{word})\b", text) and term not in chinese]


def crowded(page: str) -> list[str]:
    """Places without a space between a Chinese character and a Latin one, or with narrow punctuation."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose(page)).replace("*", "")
    return [*_CROWDED.findall(text), *_NARROW.findall(text)]


def test_there_are_pages_in_chinese() -> None:
    assert {path.name for path in CHINESE} == {
        "README.zh.md",
        "slow-training.zh.md",
        "prefill-decode.zh.md",
        "which-profile.zh.md",
    }


def test_it_has_the_same_code_blocks(pair: Pair) -> None:
    assert blocks(pair.chinese) == blocks(pair.english)


def test_it_has_the_same_headings(pair: Pair) -> None:
    def levels(page: str) -> list[int]:
        return [len(marks) for marks in re.findall(r"^(#+) ", prose(page), re.MULTILINE)]

    assert levels(pair.chinese) == levels(pair.english)


def test_it_has_the_same_links_in_the_same_order(pair: Pair) -> None:
    english, chinese = pair.names
    assert re.findall(r"\]\(([^)]+)\)", prose(pair.english))[0] == chinese
    assert re.findall(r"\]\(([^)]+)\)", prose(pair.chinese))[0] == english
    assert links(pair.chinese)[1:] == links(pair.english)[1:]


def test_it_has_the_same_tables(pair: Pair) -> None:
    def shape(page: str) -> list[list[list[str]]]:
        return [[codes(cell) for cell in row] for row in rows(prose(page))]

    assert shape(pair.chinese) == shape(pair.english)


def test_it_names_the_same_things(pair: Pair) -> None:
    def spans(page: str) -> list[str]:
        return sorted(codes(prose(page)))

    assert spans(pair.chinese) == spans(pair.english)


def test_it_names_the_same_versions(pair: Pair) -> None:
    def versions(page: str) -> list[str]:
        return sorted(re.findall(r"\d+\.\d+(?:\.\d+)?", prose(page)))

    assert versions(pair.chinese) == versions(pair.english)


def test_it_uses_the_terms(pair: Pair) -> None:
    assert missing(pair.english, pair.chinese) == []
    assert [word for word in OTHER_WORDS if word in pair.chinese] == []


def test_it_is_set_as_chinese(pair: Pair) -> None:
    assert crowded(pair.chinese) == []


@pytest.mark.parametrize(
    ("chinese", "lacking"),
    [
        pytest.param("名字空间缺少权限。", [], id="both"),
        pytest.param("命名空间缺少权限。", ["名字空间"], id="another word"),
        pytest.param("缺少。", ["名字空间", "权限"], id="none"),
    ],
)
def test_a_term_that_is_missing_would_be_found(chinese: str, lacking: list[str]) -> None:
    assert missing("The namespace lacks a permission, and `labels` is a name.\n", chinese) == lacking


@pytest.mark.parametrize(
    ("chinese", "found"),
    [
        pytest.param("一个 GPU。见[文档](docs.md)。", [], id="as it should be"),
        pytest.param("一个GPU。", ["个G"], id="no space"),
        pytest.param("一个,GPU,一个。", ["个,", ",一"], id="narrow commas"),
        pytest.param("```console\n一个GPU\n```\n", [], id="code"),
    ],
)
def test_crowded_text_would_be_found(chinese: str, found: list[str]) -> None:
    assert crowded(chinese) == found
