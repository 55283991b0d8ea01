"""Which text NCCL's parser takes, which is no XML parser: src/graph/xml.cc of NCCL 2.30.7."""

from xml.dom import minidom
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.topology.nccl.check import check
from webhook.topology.nccl.parser import parse
from webhook.topology.nccl.reader import Unreadable
from webhook.topology.nccl.report import Contents, Diagnostic, Severity
from webhook.topology.nccl.values import bus_number, integer, is_integer

SMALL = """\
<system version="1">
  <cpu numaid="0" arch="arm64" affinity="ff">
    <nic>
      <net name="eth0"/>
    </nic>
  </cpu>
</system>
"""
NAMES = ["system", "cpu", "nic", "net"]


def elements(text: str) -> list[str]:
    """The names of what NCCL keeps, depth first."""
    waiting, names = list(parse(text.encode()).systems), []
    while waiting:
        element = waiting.pop(0)
        names.append(element.name)
        waiting[:0] = element.children
    return names


def attributes(text: str) -> tuple[tuple[str, str], ...]:
    """What NCCL stores with the root."""
    return parse(text.encode()).systems[0].attributes


def refusal(text: str | bytes) -> str:
    """The one finding of a file that NCCL cannot read."""
    report = check(text)
    assert not report.accepted
    assert report.contents.elements == 0
    (finding,) = report.findings
    assert finding.severity is Severity.ABORTS
    return str(finding)


def test_a_plain_file_is_read() -> None:
    assert elements(SMALL) == NAMES
    assert check(SMALL).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        SMALL.replace("\n", "\r\n"),
        SMALL.replace("\n", "").replace("  ", ""),
        SMALL.replace('<net name="eth0"/>', '<net name="eth0"></net>'),
        SMALL.replace('<net name="eth0"/>', '<net name="eth0" />'),
        SMALL.replace("<cpu numaid", "<cpu  numaid"),
        SMALL.replace("<cpu", "<!-- two sockets --><cpu"),
        SMALL.replace("<cpu", "<!---->\n<!-- a > b & c <d> --><cpu"),
        "<!-- made by hand -->\n" + SMALL + "<!-- the end -->",
        SMALL.replace('name="eth0"/>', 'name="eth0"/whatever>'),
    ],
    ids=["CRLF", "one line", "closed", "slash", "two spaces", "comment", "comments", "around", "behind the slash"],
)
def test_what_xml_allows_and_nccl_too(text: str) -> None:
    assert elements(text) == NAMES
    assert check(text).findings == ()


def test_an_xml_declaration_is_refused() -> None:
    assert refusal('<?xml version="1.0"?>\n' + SMALL) == (
        'line 1: the tag "<?xml": expected no XML declaration, found "?>": '
        "NCCL fails with ncclInternalError (\"XML Parse : expected >, got '?'\")"
    )


def test_a_document_type_is_taken_for_an_element_that_never_ends() -> None:
    assert refusal("<!DOCTYPE system>\n" + SMALL) == (
        'line 1: the file: expected no XML declaration or DOCTYPE, found "<!DOCTYPE": '
        'NCCL fails with ncclInternalError ("XML Parse : unterminated !DOCTYPE")'
    )


@pytest.mark.parametrize("text", ["\ufeff" + SMALL, b"\xef\xbb\xbf" + SMALL.encode()], ids=["text", "bytes"])
def test_a_byte_order_mark_is_refused(text: str | bytes) -> None:
    assert 'line 1: between elements: expected "<" behind spaces and line breaks only, found a byte order' in refusal(
        text
    )


def test_text_between_elements_is_refused() -> None:
    assert refusal(SMALL.replace("<nic>", "two NICs <nic>")) == (
        'line 3: between elements: expected "<" behind spaces and line breaks only, found "two NICs <nic>": '
        "NCCL fails with ncclInternalError (\"XML Parse error : expecting '<', got 't'\")"
    )


def test_a_tab_between_elements_is_refused() -> None:
    assert 'line 2: between elements: expected "<" behind spaces and line breaks only, found a tab: ' in refusal(
        SMALL.replace("  <cpu", "\t<cpu")
    )


def test_a_tab_behind_a_name_is_refused() -> None:
    assert 'found "cpu\\tnumaid=": NCCL fails with ncclInternalError ("XML Parse : Unexpected value' in refusal(
        SMALL.replace("<cpu ", "<cpu\t")
    )


def test_a_line_break_between_attributes_is_refused() -> None:
    assert refusal(SMALL.replace(" arch", "\narch")) == (
        'line 2: the tag "<cpu": expected one space between attributes, then ">" or "/>", found a line break: '
        "NCCL fails with ncclInternalError (\"XML Parse : expected >, got '\\n'\")"
    )


def test_spaces_around_an_equals_sign_are_refused() -> None:
    assert 'the tag "<cpu": expected a double quote behind the equals sign, found a space' in refusal(
        SMALL.replace('numaid="0"', 'numaid = "0"')
    )


def test_a_value_without_quotes_is_refused() -> None:
    assert "Expected (double) quote." in refusal(SMALL.replace('numaid="0"', "numaid=0"))


def test_a_space_in_a_closing_tag_is_refused() -> None:
    assert 'the tag "</cpu": expected ">", found a space' in refusal(SMALL.replace("</cpu>", "</cpu >"))


def test_an_element_that_ends_as_another_is_refused() -> None:
    assert refusal(SMALL.replace("</nic>", "</cpu>")) == (
        'line 5: element nic: expected "</nic>", found "</cpu>": '
        'NCCL fails with ncclInternalError ("XML Mismatch : nic / cpu")'
    )


@pytest.mark.parametrize("length", range(1, len(SMALL) - 1, 7))
def test_a_file_that_was_cut_is_refused(length: int) -> None:
    assert "found the end of the file" in refusal(SMALL[:length])


def test_a_comment_without_an_end_is_refused() -> None:
    assert 'a comment: expected "-->", found the end of the file' in refusal("<!-- " + SMALL)


def test_an_equals_sign_in_the_first_word_of_a_comment_is_refused() -> None:
    assert 'Unexpected value with name !--")' in refusal("<!--=======-->" + SMALL)
    assert check("<!-- ======= -->" + SMALL).clean


def test_single_quotes_are_read_but_not_by_older_releases() -> None:
    report = check(SMALL.replace('"', "'"))
    assert elements(SMALL.replace('"', "'")) == NAMES
    (finding,) = report.findings
    assert str(finding) == (
        "line 1: the file: expected double quotes, found single ones: "
        "NCCL up to 2.26 looks only for double quotes and fails with ncclInternalError"
    )
    assert report.clean


def test_entities_are_not_decoded() -> None:
    assert attributes('<system version="1" name="a&amp;b"/>')[1] == ("name", "a&amp;b")


def test_a_quote_of_the_other_kind_belongs_to_the_value() -> None:
    assert attributes('<system version="1" name=\'say "hi"\'/>')[1] == ("name", 'say "hi"')


def test_a_surplus_space_costs_an_attribute_without_a_name() -> None:
    assert attributes('<system version="1" />') == (("version", "1"), ("", ""))
    assert attributes('<system  version="1"/>') == (("", ""), ("version", "1"))


def test_an_attribute_without_a_value_is_empty() -> None:
    assert attributes('<system version="1" name/>') == (("version", "1"), ("name", ""))


def test_a_value_ends_at_a_zero_byte_as_in_c() -> None:
    assert attributes('<system version="1" name="one\0two"/>')[1] == ("name", "one")


def test_a_value_may_have_253_bytes() -> None:
    assert attributes(f'<system version="1" name="{"x" * 253}"/>')[1] == ("name", "x" * 253)
    text = refusal(f'<system version="1" name="{"x" * 254}"/>')
    assert 'line 1: the tag "<system": expected a value of at most 253 bytes, found a longer one' in text


def test_the_limit_of_a_value_is_one_of_bytes_not_of_letters() -> None:
    assert "expected a value of at most 253 bytes" in refusal(f'<system version="1" name="{"é" * 127}"/>')
    assert check(f'<system version="1" name="{"é" * 126}"/>').clean


def test_a_name_may_have_253_bytes() -> None:
    assert check(f'<system version="1"><{"x" * 253}/></system>').accepted
    assert "expected a name of at most 253 bytes" in refusal(f'<system version="1"><{"x" * 254}/></system>')


def test_16_attributes_are_stored_and_the_rest_is_dropped() -> None:
    names = " ".join(f'a{number}="1"' for number in range(15))
    assert len(attributes(f'<system {names} version="1"/>')) == 16
    text = f'<system version="1" {names} name="x"/>'
    assert len(attributes(text)) == 16
    assert (
        "line 1: system: expected at most 16 attributes, found 1 more: NCCL drops those behind the last one that fits"
        in {str(finding) for finding in check(text).findings}
    )


def test_a_version_behind_the_16th_attribute_is_not_found() -> None:
    names = " ".join(f'a{number}="1"' for number in range(16))
    assert 'expected version="1", found no version' in refusal(f'<system {names} version="1"/>')


def test_255_elements_fit_and_256_do_not() -> None:
    ports = "".join(f'<net name="{number}"/>' for number in range(252))
    full = f'<system version="1"><cpu numaid="0" arch="arm64" affinity="1"><nic>{ports}</nic></cpu></system>'
    assert check(full).contents.elements == 255
    assert check(full).accepted
    one_more = full.replace("</nic>", '\n<net name="x"/></nic>')
    assert refusal(one_more) == (
        "line 2: the file: expected at most 255 elements, found one more: "
        'NCCL fails with ncclInternalError ("Error : XML parser is limited to 256 nodes")'
    )


def test_comments_and_unknown_elements_do_not_count() -> None:
    many = SMALL.replace("<nic>", "<!-- x --><x/>" * 300 + "<nic>")
    assert check(many).contents.elements == 4


def test_more_than_200_elements_leave_too_little_room() -> None:
    ports = "".join(f'<net name="{number}"/>' for number in range(198))
    text = f'<system version="1"><cpu numaid="0" arch="arm64" affinity="1"><nic>{ports}</nic></cpu></system>'
    assert check(text).clean
    (finding,) = check(text).findings
    assert str(finding) == (
        "line 1: the file: expected at most 200 elements, found 201: "
        "NCCL adds NICs and what else it detects, and fails at more than 255"
    )


@pytest.mark.parametrize(
    ("version", "found"),
    [("2", "2"), ("1.1", "1"), ("", "0"), ("one", "0"), ("0", "0"), ("10", "10")],
)
def test_the_version_is_read_as_a_number(version: str, found: str) -> None:
    text = f'<system version="{version}"/>'
    if found == "1":
        assert check(text).accepted
    else:
        assert f'("XML Topology has wrong version {found}, 1 needed")' in refusal(text)
        assert "ncclInvalidUsage" in refusal(text)


def test_a_version_is_required() -> None:
    assert refusal("<system/>") == (
        'line 1: system: expected version="1", found no version: '
        'NCCL fails with ncclInternalError ("Attribute version of node system not found")'
    )


def test_a_closing_tag_outside_of_everything_opens_an_element() -> None:
    assert "version of node system not found" in refusal(SMALL + "</system>")
    assert 'line 8: element "cpu": expected its end, found the end of the file' in refusal(SMALL + "</cpu>")


def test_an_unknown_element_may_end_with_any_name() -> None:
    report = check(SMALL.replace("<nic>", "<memory><dimm></memory></x><nic>"))
    assert report.accepted
    assert [str(finding) for finding in report.findings] == [
        'line 3: in cpu: expected an element that NCCL knows there, found "memory": NCCL skips it with everything in it'
    ]


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        (SMALL.replace("cpu", "CPU"), 'in system: expected an element that NCCL knows there, found "CPU"'),
        (
            SMALL.replace("<nic>", '<gpu sm="90"/><nic>'),
            'in cpu: expected an element that NCCL knows there, found "gpu"',
        ),
        (SMALL + "<x/>", 'beside system: expected an element that NCCL knows there, found "x"'),
        (
            SMALL.replace('"eth0"/>', '"eth0"><x/></net>'),
            'in net: expected an element that NCCL knows there, found "x"',
        ),
    ],
)
def test_elements_that_nccl_does_not_know_in_a_place_are_skipped(text: str, skipped: str) -> None:
    report = check(text)
    assert skipped in "".join(map(str, report.findings))
    assert report.accepted
    assert not report.clean


def test_only_some_of_many_unknown_elements_are_listed() -> None:
    report = check(SMALL.replace("<nic>", "<x/>" * 1000 + "<nic>"))
    assert len(report.findings) == 21
    assert report.findings[-1].message == "expected elements that NCCL knows, found 980 more that it does not"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "no element"),
        (" \r\n ", "no element"),
        ("<!-- nothing yet -->", "no element"),
        ('<topology version="1"></topology>', 'element "topology"'),
        (f"<nccl>{SMALL}</nccl>", 'element "nccl"'),
    ],
    ids=["empty", "blank", "comment", "other root", "wrapped"],
)
def test_a_file_without_a_system_is_ignored(text: str, found: str) -> None:
    report = check(text)
    consequence = "NCCL ignores the file, with no more than an INFO line, and detects everything itself"
    expected = f'expected <system version="1">, found {found}'
    assert report.findings == (Diagnostic(Severity.MISREADS, 1, "the file", expected, consequence),)
    assert report.contents == Contents()
    assert report.accepted
    assert not report.clean


def test_a_second_system_is_ignored() -> None:
    report = check(SMALL + SMALL)
    found = Diagnostic(Severity.MISREADS, 8, "system", "expected one system, found another", "NCCL uses the first")
    assert report.findings == (found,)
    assert report.accepted


def test_endless_comments_are_refused_because_nccl_runs_out_of_stack() -> None:
    assert "comments behind each other: expected at most 10000, found more" in refusal("<!---->" * 10_001 + SMALL)
    assert check("<!---->" * 10_000 + SMALL).clean


def test_endless_depth_is_refused_because_nccl_runs_out_of_stack() -> None:
    assert "expected at most 10000, found more than 10000 levels" in refusal("<x>" * 10_001)


def test_a_huge_file_is_one_finding() -> None:
    assert refusal(b"<" * 10_000_000) == (
        "line 1: the file: expected at most 1048576 bytes, found 10000000: "
        "NCCL takes at most 255 elements, which need far less; nothing was looked at here"
    )


def test_messages_hold_no_control_characters() -> None:
    assert refusal("\x1b[2J<system/>").isprintable()
    assert all(line.isprintable() for line in str(check(SMALL.replace("cpu", "c\x1b[2Ju"))).splitlines())


@pytest.fixture
def tree() -> ElementTree.Element:
    system = ElementTree.Element("system", version="1")
    cpu = ElementTree.SubElement(system, "cpu", numaid="0", arch="arm64", affinity="ff")
    ElementTree.SubElement(ElementTree.SubElement(cpu, "nic"), "net", name="eth0")
    return system


@pytest.mark.parametrize("indented", [False, True])
def test_what_element_tree_writes_is_clean(tree: ElementTree.Element, *, indented: bool) -> None:
    if indented:
        ElementTree.indent(tree)
    text = ElementTree.tostring(tree)
    assert elements(text.decode()) == NAMES
    assert check(text).findings == ()


def test_what_element_tree_writes_with_a_declaration_is_refused(tree: ElementTree.Element) -> None:
    assert "expected no XML declaration" in refusal(ElementTree.tostring(tree, xml_declaration=True))


def test_what_minidom_prints_is_refused() -> None:
    document = minidom.Document()
    document.appendChild(document.createElement("system")).setAttribute("version", "1")
    assert "expected no XML declaration" in refusal(document.toprettyxml())


def test_a_refusal_is_an_error_with_the_text_of_its_finding() -> None:
    with pytest.raises(Unreadable, match="line 1: system: expected version"):
        parse(b"<system/>")


@given(st.integers(-(2**31), 2**31 - 1))
def test_decimal_and_hexadecimal_numbers_are_read_as_they_are(number: int) -> None:
    for text in (str(number), hex(number), f" {number}", f"{number}%"):
        assert integer(text) == number
    assert is_integer(str(number))
    assert not is_integer(f"{number}%")


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("x16", 0), ("16x", 16), ("0143", 99), ("09", 0), ("0x", 0), ("+5", 5), ("9.0", 9), ("4294967297", 1)],
)
def test_other_texts_are_read_as_strtol_reads_them(text: str, number: int) -> None:
    assert integer(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0000:1b:00.0", 0x1B000),
        ("0000:1B:00.0", 0x1B000),
        ("00000000:1b:00.0", 0x1B000),
        ("0008:01:00.4", 0x801004),
        ("fffffff:ffff:ff", 0xFFFFFFFFFFFFF),
        ("switch0", 0),
        ("f" * 20, 2**63 - 1),
    ],
)
def test_a_bus_id_is_a_number_up_to_what_is_no_digit(text: str, number: int) -> None:
    assert bus_number(text) == number
