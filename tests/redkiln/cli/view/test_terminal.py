"""Texts of others that try to control the terminal."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from redkiln.cli.view.terminal import SafeConsole, print_line, show_controls, show_log

CLEAR = "\x1b[2J"
TITLE = "\x1b]0;owned\x07"


def printed(renderable, **options):
    file = io.StringIO()
    SafeConsole(file=file, width=60, highlight=False, **options).print(renderable)
    return file.getvalue()


@pytest.mark.parametrize(
    ("is_terminal", "is_prose", "printed"),
    [
        (True, True, ["  warning: two", "  words and", "  three"]),
        (True, False, ["  warning: two words and three"]),
        (False, True, ["  warning: two words and three"]),
    ],
)
def test_only_prose_on_a_terminal_is_broken_between_words(is_terminal, is_prose, printed):
    file = io.StringIO()
    console = SafeConsole(file=file, width=16, force_terminal=is_terminal, no_color=True)
    print_line(console, "  warning: two words and three", is_prose=is_prose)
    assert [line.rstrip() for line in file.getvalue().splitlines()] == printed


@pytest.mark.parametrize("hostile", [CLEAR, TITLE, "\x9b2J", "a\rb", "\u202egpj.exe", "\x7f", "\0"])
def test_printed_texts_send_no_controls(hostile):
    table = Table("name", title=hostile)
    table.add_row(hostile)
    table.add_row(Text(hostile))
    for renderable in (Text(hostile), table):
        out = printed(renderable)
        assert not {character for character in out if ord(character) < 32} - {"\n"}
        assert not set(out) & set("\x7f\x9b\u202e")


def test_hostile_text_stays_readable():
    assert show_controls(f"a{CLEAR}\x9b\u202e") == "a␛[2J<U+009B><U+202E>"
    assert show_controls("tab\tline\nü 漢字 😀") == "tab\tline\nü 漢字 😀"


def test_styles_of_the_program_itself_are_kept():
    out = printed(Text("red" + CLEAR, style="red"), force_terminal=True, color_system="standard")
    assert out == "\x1b[31mred␛[2J\x1b[0m\n"


def test_a_log_keeps_colours_and_progress_bars():
    log = "\x1b[1;31mfailed\x1b[0m\n 50 %\r100 %\n"
    assert "".join(show_log([log.encode()])) == log


def test_a_log_loses_other_controls_wherever_it_is_cut():
    log = f"a\x1b[32mü{CLEAR}{TITLE}\x1b[0mz\x1b".encode()
    whole = "".join(show_log([log]))
    assert whole == "a\x1b[32mü␛[2J␛]0;owned␇\x1b[0mz␛"
    for cut in range(len(log)):
        assert "".join(show_log([log[:cut], log[cut:]])) == whole
