"""What is inferred without any options."""

import pytest

PROSE = "the {} message has several words of text"


def test_a_csv_becomes_typed_columns_a_target_and_frozen_splits(look):
    lines = ["age,city,label"]
    lines += [f"{20 + i},{['Rome', 'Oslo'][i % 2]},{['no', 'yes'][i % 3 == 0]}" for i in range(60)]
    lines[5] = ",Rome,no"
    looked = look("\n".join(lines))
    index, table = looked.index, looked.table
    assert (index.task, index.target, index.classes) == (
        "tabular-classification",
        "label",
        ["no", "yes"],
    )
    assert [(column.name, column.type) for column in index.columns] == [
        ("age", "numeric"), ("city", "categorical"),
    ]  # fmt: skip
    assert (index.num_train, index.num_test, index.held_out_test) == (54, 6, True)
    assert table.column_names == ["age", "city", "__target__", "__rank__", "__place__"]
    types = ["double", "int32", "int32", "int32", "string"]
    assert [str(kind) for kind in table.schema.types] == types
    assert index.columns[0].num_missing == 1
    assert table["age"].null_count == 1
    train = [value for value in table["age"].to_pylist()[: index.num_train] if value is not None]
    assert index.columns[0].mean == pytest.approx(sum(train) / len(train))
    assert looked.report.counts["train"] == {"no": 36, "yes": 18}
    assert looked.uses() == {"age": "numeric", "city": "categorical", "label": "target"}


@pytest.mark.parametrize(
    ("rare", "note"),
    [(["rare"], "1 class has no test row: rare"), (["r", "s"], "2 classes have no test row: r, s")],
)
def test_classes_without_a_test_row_are_noted(look, rare, note):
    rows = [f"{i},{['no', 'yes'][i % 2]}" for i in range(60)]
    rows += [f"{i},{name}" for i, name in enumerate(rare)]
    assert note in look("\n".join(["age,label", *rows])).report.notes


def test_missing_values_are_counted_in_the_rows_that_are_used_and_other_words_than_dates(look):
    lines = ["size,sold,price"]
    lines += [f"{i % 17},2024-{i % 12 + 1:02}-{i % 28 + 1:02},{i * 1.5}" for i in range(300)]
    lines[5], lines[9], lines[12] = ",,", "1,unknown,7", ",,9"
    looked = look("\n".join(lines), target="price", skip_bad=1)
    counts = {column.name: column.num_missing for column in looked.report.columns}
    assert (counts["size"], counts["sold"], counts["sold.month"]) == (1, 2, 2)


def test_words_for_missing_are_counted_in_the_rows_that_are_used(look):
    lines = [f"{'None' if i % 3 == 0 else 'ab'[i % 2]},{i * 7 % 11},{i * 1.5}" for i in range(300)]
    lines[0] = "None,1,"
    looked = look("\n".join(["kind,size,price", *lines]), target="price", skip_bad=1)
    (note,) = (note for note in looked.report.notes if "count as missing" in note)
    assert note.startswith("column kind: 99 values 'None' count as missing. If 'None' is")
    assert looked.report.columns[0].num_missing == 99


@pytest.mark.parametrize(("name", "others"), [("text", ["age", "x"]), ("info", [])])
def test_sentences_that_repeat_are_noted_with_the_option_for_texts(look, name, others):
    lines = [",".join([name, *others, "label"])]
    for i in range(60):
        values = [PROSE.format(i % 6), *(str(i * 7 % 11) for _ in others), "ab"[i % 2]]
        lines.append(",".join(values))
    looked = look("\n".join(lines))
    assert looked.report.task == "tabular-classification"
    (note,) = (note for note in looked.report.notes if "sentences" in note)
    assert note.startswith(f"column {name} has sentences, but only 6 different ones in 60 rows, so")
    assert note.endswith(f"to classify its texts: text={name}")
    assert look("\n".join(lines), text=name).report.task == "text-classification"


def test_a_column_of_phrases_among_others_is_not_noted_as_texts(look):
    lines = [f"the red one {i % 6},{i * 7 % 11},{'ab'[i % 2]}" for i in range(60)]
    looked = look("\n".join(["kind,size,label", *lines]))
    assert not any("sentences" in note for note in looked.report.notes)


def test_ranks_order_each_class_of_each_split_from_zero(look, rows):
    looked = look(rows(100, label=lambda i: "abc"[i % 3]))
    index, table = looked.index, looked.table
    labels, ranks = table["__target__"].to_pylist(), table["__rank__"].to_pylist()
    for part in (slice(0, index.num_train), slice(index.num_train, None)):
        for label in range(3):
            of_class = [
                r for r, other in zip(ranks[part], labels[part], strict=True) if other == label
            ]
            assert sorted(of_class) == list(range(len(of_class)))


def test_the_same_bytes_and_seed_give_the_same_file_and_another_seed_another_split(look, rows):
    content = rows(60)
    first, again, other = look(content), look(content), look(content, seed=1)
    assert first.path.read_bytes() == again.path.read_bytes()
    assert first.table["x"].to_pylist() != other.table["x"].to_pylist()


def test_a_text_with_a_label_and_no_header_is_recognised(look):
    content = "\n".join(f"{'spam' if i % 3 else 'ham'}\t" + PROSE.format(i) for i in range(30))
    looked = look(content)
    assert looked.report.task == "text-classification"
    assert looked.uses() == {"label": "target", "text": "text"}
    assert "the first row is data, not a header" in looked.report.notes[0]


def test_quotes_inside_a_tsvs_text_do_not_join_lines(look):
    lines = [f"{'ab'[i % 2]}\t{PROSE.format(i)}" for i in range(30)]
    lines[3] = 'a\t"he said so, and left the quote open'
    lines[9] = 'b\tthe end" of another quote is here'
    looked = look("\n".join(lines))
    assert looked.index.num_train + looked.index.num_test == 30
    assert '"he said so, and left the quote open' in looked.table["text"].to_pylist()


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (lambda i: i % 3, "tabular-classification"),
        (lambda i: i * 1.5, "tabular-regression"),
        (lambda i: 1000 + i * 7 % 89, "tabular-regression"),
        (lambda i: ["true", "false"][i % 2], "tabular-classification"),
    ],
)
def test_the_target_decides_the_task(look, rows, values, task):
    looked = look(rows(80, header="x,size,y", label=values))
    assert looked.report.task == task
    assert any(task in note for note in looked.report.notes)


def test_classes_that_are_numbers_are_sorted_by_value(look, rows):
    looked = look(rows(200, label=lambda i: i % 12))
    assert looked.index.classes == [str(number) for number in range(12)]


def test_a_regression_stores_the_statistics_of_its_training_rows(look, rows):
    looked = look(rows(50, header="a,b,price", label=lambda i: i * 2.5))
    index = looked.index
    values = looked.table["__target__"].to_pylist()
    assert index.target_mean == pytest.approx(sum(values[: index.num_train]) / index.num_train)
    assert (index.num_train, index.num_test) == (45, 5)
    assert looked.report.counts == {"train": {"rows": 45}, "test": {"rows": 5}}
    target = next(column for column in looked.report.columns if column.type == "target")
    row = round(target.minimum / 2.5)
    assert target.minimum_at == f"line {row + 2}"


def test_columns_that_number_rows_or_are_nearly_unique_are_ignored_with_a_reason(look):
    lines = ["id,name,x,same,label"]
    lines += [f"{i + 5},person{i},{i % 7},1,{'ab'[i % 2]}" for i in range(60)]
    looked = look("\n".join(lines))
    assert [column.name for column in looked.index.columns] == ["x"]
    notes = {column.name: column.note for column in looked.report.columns if column.note}
    assert set(notes) == {"id", "name", "same"}


def test_a_split_column_is_used(look, rows):
    content = rows(
        40,
        header="x,size,label,split",
        label=lambda i: f"{'ab'[i % 2]},{'test' if i > 29 else 'train'}",
    )
    looked = look(content)
    assert (looked.index.num_train, looked.index.num_test) == (30, 10)
    assert not looked.index.held_out_test
    assert looked.uses()["split"] == "split"


@pytest.mark.parametrize("word", ["val", "valid", "Validation", "dev"])
def test_validation_rows_of_a_split_column_are_the_last_training_rows(look, rows, word):
    content = rows(header="x,size,label,split", label=lambda i: f"a{i % 2},{splits(i, word)}")
    looked = look(content)
    index = looked.index
    assert (index.num_train, index.num_validation, index.num_test) == (30, 10, 10)
    assert not index.held_out_test
    rows_of = [round(x / 0.37) for x in looked.table["x"].to_pylist()]
    assert [splits(row, word) for row in rows_of] == ["train"] * 20 + [word] * 10 + ["test"] * 10
    counts = looked.report.counts
    assert {split: sum(of.values()) for split, of in counts.items()} == {
        "train": 20, "validation": 10, "test": 10,
    }  # fmt: skip
    assert looked.uses()["split"] == "split"
    # Nothing that scales the inputs is known from rows that only validate.
    (measured,) = [column for column in looked.report.columns if column.name == "x"]
    assert measured.mean == pytest.approx(sum(looked.table["x"].to_pylist()[:20]) / 20)


def test_a_test_split_is_held_out_next_to_an_own_validation_split(look, rows):
    content = rows(
        header="x,size,label,split",
        label=lambda i: f"a{i % 2},{'valid' if i >= 30 else 'train'}",
    )
    index = look(content).index
    assert (index.num_train, index.num_validation, index.num_test) == (36, 10, 4)
    assert index.held_out_test


def test_a_class_without_training_rows_in_the_validation_split_is_refused(look, rows):
    content = rows(
        header="x,size,label,split",
        label=lambda i: "c,valid" if i == 30 else f"{'ab'[i % 2]},train",
    )
    looked = look(content)
    assert (looked.codes, looked.errors[0].path) == (["unknown_validation_class"], "line 32")


def splits(row, other):
    """Half of the rows are for training, a quarter each for another split and for testing."""
    return ["train", "train", other, "test"][row // 2 % 4]


@pytest.mark.parametrize(
    ("word", "words"),
    [("tset", "this row has 'tset'"), ("", "this row has no value"), ("NA", "this row has 'NA'")],
)
def test_a_row_without_a_split_refuses_the_split_column(look, rows, word, words):
    content = rows(
        header="x,size,label,split",
        label=lambda i: f"a{i % 2},{word if i in (30, 37) else splits(i, 'train')}",
    )
    looked = look(content)
    assert (looked.codes, looked.errors[0].path) == (["unknown_split"], "line 32")
    assert words in looked.errors[0].message
    assert "(2 rows in total)" in looked.errors[0].message
    assert "column=split=categorical or column=split=ignored" in looked.errors[0].message
    for use in ("categorical", "ignored"):
        said = look(content, columns={"split": use})
        assert (said.errors, said.uses()["split"]) == ([], use)


def test_a_column_called_split_without_a_test_row_is_a_feature(look, rows):
    content = rows(header="x,split,label", label=lambda i: "ab"[i % 2])
    lines = [line.split(",") for line in content.splitlines()]
    lines[1:] = [[x, ["train", "left"][i % 2], label] for i, (x, _, label) in enumerate(lines[1:])]
    assert look("\n".join(map(",".join, lines))).uses()["split"] == "categorical"


def test_frequent_words_that_count_as_missing_are_named_in_one_note(look):
    lines = ["shade,height,label"]
    lines += [f"{('none', 'some', 'much', 'many')[i % 4]},{i},{'ab'[i % 2]}" for i in range(40)]
    notes = "; ".join(look("\n".join(lines)).report.notes)
    assert "column shade: 10 values 'none' count as missing. If 'none' is a category, push" in notes
    lines = [line.replace("many", "NA") for line in lines]
    (note,) = (n for n in look("\n".join(lines)).report.notes if "count as missing" in n)
    assert note.startswith(
        "column shade: 10 values 'none' count as missing; column shade: 10 values 'NA' count as "
        "missing. If one of these is a category, push again with missing=''"
    )
    assert not any(
        "count as missing" in n for n in look("\n".join(lines), missing=["NA"]).report.notes
    )


def test_a_category_that_only_the_test_split_has_is_missing(look):
    lines = ["colour,size,label,split"]
    lines += [
        f"{'red' if i < 20 else 'blue'},{i % 3},{'ab'[i % 2]},{'train' if i < 20 else 'test'}"
        for i in range(30)
    ]
    looked = look("\n".join(lines), columns={"colour": "categorical"})
    colour = looked.index.columns[0]
    assert colour.categories == ["red"]
    assert looked.table["colour"].to_pylist()[20:] == [None] * 10


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(look, rows, delimiter):
    assert look(rows().replace(",", delimiter)).report.errors == []


def test_decimal_commas_are_numbers(look):
    lines = ["a;b;label"] + [f"{i},5;{i * 3 % 7};{'xy'[i % 2]}" for i in range(40)]
    looked = look("\n".join(lines))
    assert looked.index.columns[0].type == "numeric"
    assert 0.5 in looked.table["a"].to_pylist()


@pytest.mark.parametrize(
    ("encoding", "note"), [("utf-8-sig", None), ("utf-16", None), ("latin-1", "not UTF-8")]
)
def test_encodings_are_detected(look, encoding, note):
    lines = ["stadt,x,label"] + [
        f"{['Köln', 'Bonn'][i % 2]},{i * i % 17},{'ab'[i % 3 > 0]}" for i in range(40)
    ]
    looked = look("\r\n".join(lines).encode(encoding))
    assert sorted(looked.index.columns[0].categories) == ["Bonn", "Köln"]
    assert any(note in text for text in looked.report.notes) if note else True


def test_json_lines_and_parquet_hold_the_same_table(look, json_lines, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"x": i * 0.5 if i % 9 else None, "c": "uvw"[i % 3], "label": i % 2 == 0} for i in range(40)
    ]
    lines = look(json_lines(*rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    parquet = look((tmp_path / "a.parquet").read_bytes())
    assert lines.index == parquet.index
    # Only the words of the places differ: line and row.
    theirs = parquet.table.drop_columns("__place__")
    assert lines.table.drop_columns("__place__").equals(theirs)
    assert lines.index.classes == ["false", "true"]


LARGE = [2**60, 2**60 + 1, 2**60 + 2]


@pytest.mark.parametrize("kind", ["csv", "json lines", "int64", "uint64", "decimal128(20, 0)"])
@pytest.mark.parametrize("first", [LARGE[0], 7, 2**53, 2**63 + 1])
def test_integers_too_long_for_floats_stay_different(look, json_lines, kind, first):
    import io
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet as pq

    first = min(first, 2**63 - 1) if kind == "int64" else first
    names = [first, *LARGE[1:]]
    # More rows than a batch of JSON lines has, the first of which has small numbers alone.
    rows = [
        {"x": i * 0.5 % 7, "id": names[i % 3] if i > 20_000 else first, "label": names[i % 3]}
        for i in range(20_040)
    ]
    if kind == "csv":
        lines = [",".join(map(str, row.values())) for row in rows]
        content = "\n".join(["x,id,label", *lines])
    elif kind == "json lines":
        content = json_lines(*rows)
    else:
        cast = Decimal if kind.startswith("decimal") else int
        types = pa.decimal128(20, 0) if kind.startswith("decimal") else getattr(pa, kind)()
        columns = {
            name: pa.array([cast(row[name]) for row in rows], types) for name in ("id", "label")
        }
        buffer = io.BytesIO()
        pq.write_table(pa.table({"x": [row["x"] for row in rows], **columns}), buffer)
        content = buffer.getvalue()
    looked = look(content, task="tabular-classification", columns={"id": "categorical"})
    assert looked.errors == []
    assert sorted(looked.index.classes) == sorted(map(str, names))
    (identity,) = [column for column in looked.index.columns if column.name == "id"]
    assert sorted(identity.categories) == sorted(map(str, names))


def test_a_few_long_integers_are_different_classes(look):
    lines = [f"{i % 7 * 1.5},{10**17 + i % 5},{2**53 + i % 2}" for i in range(200)]
    looked = look("\n".join(["x,label,flag", *lines]))
    assert looked.errors == []
    assert looked.index.task == "tabular-classification"
    assert looked.index.classes == [str(10**17 + i) for i in range(5)]
    assert any("5 different values" in note for note in looked.report.notes)
    assert looked.uses()["flag"] != "ignored"


def test_integer_categories_have_no_exponent(look, json_lines):
    rows = [{"id": 10**10 + i % 2, "label": "ab"[i % 3 > 0]} for i in range(40)]
    looked = look(json_lines(*rows), columns={"id": "categorical"})
    assert sorted(looked.index.columns[0].categories) == ["10000000000", "10000000001"]


def test_large_numbers_are_still_numbers(look, json_lines):
    rows = [{"x": [2**60, 1.5, 10**400][i % (2 + (i == 2))], "y": i * 1.5} for i in range(200)]
    looked = look(json_lines(*rows))
    assert looked.report.skipped[0].code == "not_a_number"
    assert {column.name: column.maximum for column in looked.index.columns} == {"x": 2.0**60}


def test_numeric_column_names_are_accepted_next_to_a_known_name(look, rows):
    looked = look(rows(header="0,1,label"))
    assert [column.name for column in looked.report.columns] == ["0", "1", "label"]
    assert looked.index.classes == ["a", "b"]


def test_the_index_names_the_columns_that_no_feature_is_read_from(look):
    lines = ["id,country,name,x,split,label"]
    splits = ["train", "train", "train", "test"]
    lines += [f"{i + 7},DE,n{i},{i * 37 % 50},{splits[i % 4]},{'ab'[i % 2]}" for i in range(80)]
    looked = look("\n".join(lines))
    assert [column.name for column in looked.index.columns] == ["x"]
    assert looked.index.ignored == ["id", "country", "name", "split", "label"]
