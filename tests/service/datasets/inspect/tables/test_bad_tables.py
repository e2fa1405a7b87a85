"""Tables that cannot be used are refused with the place and what to do."""

import gzip
import io
import json
import zipfile

import pytest

from service.datasets.inspect.limits import Limits


def test_a_few_bad_rows_are_skipped_and_listed(look, rows):
    lines = rows(300).splitlines()
    lines[150] += ",7"
    looked = look("\n".join(lines))
    assert looked.errors == []
    assert looked.report.num_skipped == 1
    (skipped,) = looked.report.skipped
    assert (skipped.code, skipped.path) == ("wrong_number_of_fields", "line 151")
    assert looked.index.num_train + looked.index.num_test == 299


def test_many_bad_rows_refuse_the_table_and_are_listed(look, rows):
    lines = rows(100).splitlines()
    for number in (10, 20, 30):
        lines[number] = "1,2"
    looked = look("\n".join(lines))
    assert looked.codes == ["too_many_bad_rows", *["wrong_number_of_fields"] * 3]
    assert [error.path for error in looked.errors[1:]] == ["line 11", "line 21", "line 31"]


def test_line_numbers_are_right_after_blank_lines_multi_line_values_and_skipped_rows(look):
    lines = ["x,words,label"]
    lines += [f'{i * 1.5},"two\nlines {i}",{"ab"[i % 2]}' for i in range(300)]
    lines[100] += "\n"  # a blank line behind it
    lines[150] = "1,2,3,4"
    lines[200] = '9,"two\nlines",'
    content = "\n".join(lines)
    looked = look(content, task="tabular-classification")
    (missing, unread) = looked.errors
    assert unread.code == "wrong_number_of_fields"
    place = int(missing.path.removeprefix("line "))
    assert content.split("\n")[place - 1] == '9,"two'


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("NaN", "'NaN' counts as a missing"),
        ("inf", "'inf'"),
        ("1e999", "1e999"),
        ("abc", "'abc'"),
    ],
)
def test_a_target_that_is_not_a_number_is_reported_with_its_line(look, rows, value, words):
    content = rows(200, header="a,b,y", label=lambda i: value if i == 50 else i * 0.7)
    looked = look(content)
    assert looked.codes == ["bad_target", "bad_target"]
    assert (looked.errors[1].path, words in looked.errors[1].message) == ("line 52", True)


def test_a_missing_class_is_reported_with_its_line(look, rows):
    looked = look(rows(label=lambda i: "" if i == 5 else "ab"[i % 2]))
    assert (looked.codes, looked.errors[0].path) == (["bad_target"], "line 7")
    assert looked.errors[0].message.startswith(
        "target 'label': 1 row has no value; this column was taken as the target because of its "
        "name; if it is another column: target=NAME; otherwise add the values"
    )
    named = look(rows(label=lambda i: "" if i == 5 else "ab"[i % 2]), target="label")
    assert named.errors[0].message.startswith("target 'label': 1 row has no value; add the values")


@pytest.mark.parametrize(("num", "more"), [(3, ""), (12, ", 8, 9, 10, 11, 12, 13 and 2 more")])
def test_rows_without_a_number_to_predict_are_one_sentence_with_their_lines(look, rows, num, more):
    content = rows(200, header="a,b,y", label=lambda i: "" if 2 <= i < 2 + num else i * 0.7)
    looked = look(content)
    (error,) = looked.errors
    lines = "4, 5, 6" if num == 3 else "4, 5, 6, 7"
    assert error.message.startswith(f"target 'y': {num} rows have no value (lines {lines}{more});")


@pytest.mark.parametrize("word", ["None", "N/A"])
def test_a_class_spelt_like_a_missing_value_is_reported_and_can_be_kept(look, rows, word):
    content = rows(header="x,size,severity", label=lambda i: [word, "Mild", "Severe"][i % 3])
    looked = look(content)
    assert "14 rows have no value" in looked.errors[0].message
    assert f"if {word!r} is a value" in looked.errors[0].message
    assert "missing='' for empty fields only" in looked.errors[0].message
    assert looked.errors[1].path == "line 2"
    assert looked.errors[1].message == f"column 'severity': {word!r} counts as a missing value"
    assert look(content, missing=[]).index.classes == sorted([word, "Mild", "Severe"])


def test_an_empty_target_gets_no_hint_about_missing_words(look, json_lines):
    rows = [{"x": i * 0.5, "y": float("nan") if i == 7 else i * 1.5} for i in range(40)]
    looked = look(json_lines(*rows))
    assert "1 row has no value" in looked.errors[0].message
    assert "missing" not in looked.errors[0].message


def test_mixed_types_are_refused_with_an_example_and_can_be_resolved(look, rows):
    content = rows(100, header="x,q,label", label=lambda i: "ab"[i % 2])
    lines = content.splitlines()
    for number in range(10, 20):
        lines[number] = "0.5,unknown,a"
    mixed = "\n".join(lines)
    looked = look(mixed)
    assert looked.codes == ["mixed_types"]
    assert "'unknown'" in looked.errors[0].message
    assert "words that mean a missing value (missing=unknown)" in looked.errors[0].message
    assert look(mixed, missing=["unknown"]).errors == []
    assert look(mixed, columns={"q": "categorical"}).errors == []
    as_number = look(mixed, columns={"q": "numeric"})
    assert as_number.codes == ["too_many_bad_rows", *["not_a_number"] * 10]
    assert as_number.errors[1].path == "line 11"


def test_advice_on_words_for_missing_values_repeats_those_in_effect(look):
    lines = ["x,q,label"]
    lines += [
        f"{'n/a' if i % 9 == 0 else i * 0.5},{'-' if i % 10 == 0 else i},{i % 2}" for i in range(99)
    ]
    looked = look("\n".join(lines))
    assert looked.codes == ["mixed_types"]
    assert "(missing=- missing=n/a)" in looked.errors[0].message
    assert look("\n".join(lines), missing=["-", "n/a"]).errors == []


def test_words_for_missing_values_in_several_columns_are_one_problem(look):
    rows = [
        f"{'soon' if i % 9 == 0 else i * 0.5},{'unsure' if i % 10 == 0 else i},{i % 2}"
        for i in range(1, 99)
    ]
    content = "\n".join(["x,q,label", *rows])
    looked = look(content)
    assert looked.codes == ["mixed_types"]
    assert looked.errors[0].message.startswith(
        "2 columns mix types; these are not numbers: 10 of 98 values of 'x' (the first is 'soon'), "
        "9 of 98 values of 'q' (the first is 'unsure'); leave these fields empty"
    )
    assert "(missing=soon missing=unsure)" in looked.errors[0].message
    assert look(content, missing=["soon", "unsure"]).errors == []


def test_advice_on_rows_without_a_target_names_how_to_skip_them(look):
    lines = ["x,price", *(f"{i},{'' if i % 10 == 0 else i * 1.5}" for i in range(1, 100))]
    looked = look("\n".join(lines), target="price")
    assert "skip them (skip_bad=9)" in looked.errors[0].message
    assert look("\n".join(lines), target="price", skip_bad=9).errors == []


@pytest.mark.parametrize(("value", "num_broken"), [("inf", 0), ("oops", 0), ("inf", 3), ("", 3)])
def test_advice_on_bad_targets_names_a_number_that_works(look, value, num_broken):
    lines = ["x,price", *(f"{i},{value if i == 7 else i * 1.5}" for i in range(1, 400))]
    for number in range(20, 20 + num_broken):
        lines[number] += ",9"
    content = "\n".join(lines)
    advised = 1 + num_broken
    message = look(content, target="price").errors[0].message
    assert f"(skip_bad={advised})" in message
    assert look(content, target="price", skip_bad=advised).errors == []


def test_many_words_among_numbers_are_not_suggested_as_missing_values(look, rows):
    lines = rows(100, header="x,q,label", label=lambda i: "ab"[i % 2]).splitlines()
    for number in range(10, 20):
        lines[number] = f"0.5,{'abcde'[number % 5]},a"
    looked = look("\n".join(lines))
    assert looked.codes == ["mixed_types"]
    assert "missing=" not in looked.errors[0].message


def test_a_class_for_nearly_every_row_is_refused_with_an_alternative(look):
    lines = ["kind,x,label"] + [f"{'uv'[i % 2]},{i % 5},user{i}" for i in range(3000)]
    looked = look("\n".join(lines))
    assert looked.codes == ["too_many_classes"]
    assert "another target (kind" in looked.errors[0].message
    numbers = look("\n".join(lines).replace("user", ""), task="tabular-classification")
    assert "tabular-regression" in numbers.errors[0].message


def test_many_test_only_classes_cause_few_comparisons(look, comparisons):
    lines = [f"{i % 7},{'train' if i < 3000 else 'test'},user{i % 1500 + i // 3000 * 1500}"
             for i in range(6000)]  # fmt: skip
    looked = look("\n".join(["x,split,label", *lines]))
    assert looked.codes == ["unknown_test_class"] * 50
    assert [error.path for error in looked.errors[:2]] == ["line 3002", "line 3003"]
    assert "did you mean 'user" in looked.errors[0].message
    assert comparisons == [1000] * 10


def test_many_unknown_columns_cause_few_comparisons(look, rows, comparisons):
    looked = look(rows(), columns={f"c{number}": "numeric" for number in range(2000)})
    assert looked.codes == ["unknown_column"] * 20
    assert len(comparisons) == 20


def test_a_million_classes_are_refused(look):
    count = 1_000_000
    content = "value,label\n" + "".join(f"{number % 7},u{number}\n" for number in range(count))
    looked = look(content, target="label", task="tabular-classification")
    assert looked.codes == ["too_many_classes"]
    assert "'label' has 1000000 different values in 1000000 rows" in looked.errors[0].message
    assert "choose another target (value)" in looked.errors[0].message


@pytest.mark.parametrize(
    ("content", "codes"),
    [
        ("a,b,c\n", ["no_rows"]),
        ("a,b,a\n1,2,3\n4,5,6\n", ["duplicate_column"]),
        ("word\nother\nthird\n", ["one_column"]),
        ("x,label\n" + "1,a\n2,a\n" * 9, ["one_class"]),
        ("x,y\n" + "1,5.5\n2,5.5\n" * 9, ["one_class"]),
        ("x,label\n1,a\n2,b\n", ["no_test_split"]),
        ("__target__,y\n1,a\n2,b\n", ["reserved_name"]),
        ('[{"a": 1}, {"a": 2}]\n', ["not_json_lines"]),
        (b"PAR1 and then nothing of a footer", ["bad_parquet"]),
        (b"a,b\n1,2\n" * 1000 + b"\0\0", ["not_a_table"]),
        (b"", ["not_an_archive"]),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(look, content, codes):
    assert look(content).codes == codes


@pytest.mark.parametrize("before", ["", "\n\n"])
@pytest.mark.parametrize("indent", [None, 0, 2])
def test_a_json_array_is_refused_with_the_command_to_convert_it(look, indent, before):
    rows = [{"a": i, "b": i * 2, "label": i % 2} for i in range(30)]
    looked = look(before + json.dumps(rows, indent=indent) + "\n")
    assert looked.codes == ["not_json_lines"]
    assert "jq -c '.[]'" in looked.errors[0].message


def test_a_json_array_with_one_object_per_line_gets_the_same_hint(look):
    rows = ",\n".join(json.dumps({"a": i, "label": i % 2}) for i in range(30))
    looked = look(f"[\n{rows}\n]\n")
    assert looked.codes == ["not_json_lines"]
    assert "is a JSON array" in looked.errors[0].message


def test_empty_texts_are_bad_rows(look):
    lines = ["label\ttext"] + [f"{'ab'[i % 2]}\tsome words number {i}" for i in range(50)]
    lines[7] = "a\t "
    looked = look("\n".join(lines))
    assert looked.codes == ["too_many_bad_rows", "empty_text"]
    assert looked.errors[1].path == "line 8"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("[1]", "not_an_object"),
        ("{", "bad_json"),
        ('{"a": [1], "label": 1}', "nested_value"),
        ('{"a": {"b": 1}, "label": 1}', "nested_value"),
        ("7", "not_an_object"),
    ],
)
def test_a_line_that_is_not_a_flat_object_is_reported(look, json_lines, line, code):
    rows = [{"a": i % 7, "label": i % 2} for i in range(40)]
    looked = look(json_lines(*rows[:20], line, *rows[20:]))
    assert looked.codes == ["too_many_bad_rows", code]
    assert looked.errors[1].path == "line 21"


def test_json_line_numbers_ignore_line_breaks_inside_texts(look, json_lines):
    rows = [{"words": f"two\nlines {i}", "y": i * 1.5 if i != 20 else None} for i in range(40)]
    looked = look(json_lines(*rows), task="tabular-regression", columns={"words": "categorical"})
    assert looked.errors[0].path == "line 21"


def test_nested_parquet_columns_are_reported(look, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [[1], [2]], "label": [0, 1]}), tmp_path / "a.parquet")
    looked = look((tmp_path / "a.parquet").read_bytes())
    assert looked.codes == ["nested_value"]
    assert "'a'" in looked.errors[0].message
    assert "column=a=ignored" in looked.errors[0].message


def test_lists_in_parquet_are_sets_of_texts_or_can_be_ignored(look, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = range(40)
    columns = {
        "tags": [["css", "java"] if n % 3 else ["css"] for n in rows],
        "vector": [[float(n)] for n in rows],
        "size": [n * 1.5 for n in rows],
        "label": [str(n % 2) for n in rows],
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    assert look(content).codes == ["nested_value"]
    looked = look(content, columns={"vector": "ignored"})
    assert looked.codes == []
    tags = next(one for one in looked.report.columns if one.name == "tags")
    assert sorted(tags.categories) == ["css", "css;java"]


def test_a_bomb_is_not_unpacked(look):
    looked = look(gzip.compress(b"a,b\n" + b"1,2\n" * 3_000_000))
    assert looked.codes == ["compression_bomb"]


def test_a_table_over_the_limit_is_refused(look, rows):
    assert look(rows(), limits=Limits(max_table_bytes=100)).codes == ["too_large"]


def test_a_truncated_gzip_is_refused(look, rows):
    assert look(gzip.compress(rows(2000).encode())[:-20]).codes == ["bad_archive"]


def test_a_row_of_megabytes_is_reported(look, rows):
    content = rows(5) + "1,2," + "x" * 40_000_000 + "\n" + rows(5, header=None)
    looked = look(content)
    assert (looked.codes, looked.errors[0].path) == (["row_too_long"], "line 7")


def test_an_infinite_feature_is_a_bad_row(look, rows):
    lines = rows(50).splitlines()
    lines[9] = "inf,1,a"
    infinite = "\n".join(lines)
    looked = look(infinite)
    assert (looked.codes, looked.errors[0].path) == (["mixed_types"], "line 10")
    looked = look(infinite, columns={"x": "numeric"})
    assert (looked.codes[1], looked.errors[1].path) == ("not_a_number", "line 10")


def test_a_workbook_is_distinguished_from_an_archive(look):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
    looked = look(buffer.getvalue())
    assert looked.codes == ["not_a_table"]
    assert "save the sheet as CSV" in looked.errors[0].message


def test_more_bad_rows_are_skipped_on_request_and_named(look, rows):
    lines = rows(40).splitlines()
    lines[4], lines[8], lines[12] = "1,2", "1.5,many,a", "1.5,3,"
    content = "\n".join(lines)
    assert look(content, skip_bad=2).codes
    looked = look(content, skip_bad=3)
    assert looked.errors == []
    assert looked.report.num_skipped == 3
    assert {found.path for found in looked.report.skipped} == {"line 5", "line 9", "line 13"}
    assert looked.uses() == {"x": "numeric", "size": "numeric", "label": "target"}
    assert looked.index.num_train + looked.index.num_test == 37
    assert "3 rows cannot be used and were skipped: line" in " ".join(looked.index.notes)


def test_all_kinds_of_unusable_rows_are_named_at_once_and_share_one_limit(look):
    lines = ["text,label", *(f"some words about {i},{'ab'[i % 2]}" for i in range(300))]
    lines[4], lines[8] = ",a", "a text without its label,"
    content, options = "\n".join(lines), {"task": "text-classification", "target": "label"}
    looked = look(content, **options)
    assert "skip them and 1 other unusable row (skip_bad=2)" in looked.errors[0].message
    assert [found.path for found in looked.errors] == ["line 9", "line 5"]
    looked = look(content, skip_bad=1, **options)
    assert looked.codes == ["too_many_bad_rows", "empty_text", "bad_target"]
    assert "2 of 300 rows cannot be used; at most 1 is skipped" in looked.errors[0].message
    assert [found.path for found in looked.errors[1:]] == ["line 5", "line 9"]
    looked = look(content, skip_bad=2, **options)
    assert (looked.errors, looked.report.num_skipped) == ([], 2)


def test_a_table_with_too_many_bad_rows_names_the_option(look, rows):
    lines = rows(40).splitlines()
    lines[4] = "1,2"
    (error, _) = look("\n".join(lines)).errors
    assert error.code == "too_many_bad_rows"
    assert "skip_bad=1" in error.message


def test_all_kinds_of_values_among_numbers_are_named_at_once(look):
    others = {0: "{} miles", 9: "{} kg", 18: "ask"}
    ways = [others.get(i % 27, "{}").format(i) for i in range(99)]
    looked = look(
        "\n".join(["way,size,label", *(f"{w},{i % 5},{i % 2}" for i, w in enumerate(ways))])
    )
    assert looked.codes == ["mixed_types"]
    assert (
        "88 values are numbers and 11 are not (4 like '0 miles', 4 like '9 kg', 3 like 'ask')"
        in looked.errors[0].message
    )
