import pytest

from worker.hardware.facts.sysfs import (
    decode,
    list_numbers,
    parse_hexadecimal,
    parse_integer,
    parse_pairs,
    read_file,
    read_integer,
    read_pairs,
    read_text,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("24", 24),
        ("-273150", -273150),
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", None),
        ("9" * 5000, None),
        ("1_000", None),
        ("٣", None),
        ("12 34", None),
        ("0x10", None),
        ("", None),
    ],
)
def test_a_number_is_decimal_and_has_at_most_64_bits(text, value):
    assert parse_integer(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0x1002", 0x1002), ("946d7e1ef9b172dd", 0x946D7E1EF9B172DD), ("", None), ("0xzz", None)],
)
def test_ids_are_hexadecimal_with_or_without_a_prefix(text, value):
    assert parse_hexadecimal(text) == value


def test_lines_with_another_form_are_ignored():
    text = "simd_count 24\n\ngarbage\nkey with words\nbig 99999999999999999999\n wide   7 \n"
    assert parse_pairs(text) == {"simd_count": 24, "wide": 7}


def test_the_last_line_of_a_truncated_file_is_ignored():
    assert parse_pairs("simd_count 24\nvendor_id 40") == {"simd_count": 24}


def test_nul_padding_of_captures_is_removed():
    assert decode(b"17163091968\n" + b"\0" * 4000) == "17163091968\n"


def test_a_file_that_cannot_be_read_is_a_missing_fact(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("missing", "folder", "loop"):
        path = str(tmp_path / name)
        assert (read_text(path), read_integer(path), read_pairs(path)) == (None, None, {})


def test_a_huge_file_is_read_up_to_a_bound(tmp_path):
    (tmp_path / "huge").write_bytes(b"7" * 1_000_000)
    assert len(read_file(str(tmp_path / "huge"))) < 100_000


def test_numbered_entries_are_listed_in_numeric_order(tmp_path):
    for name in ("card10", "card2", "card2-DP-1", "renderD128", "card"):
        (tmp_path / name).mkdir()
    assert list_numbers(str(tmp_path), prefix="card") == [2, 10]
    assert list_numbers(str(tmp_path / "missing")) == []
