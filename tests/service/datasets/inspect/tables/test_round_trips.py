"""All values of a table come back unchanged, and every upload ends with a report."""

import csv
import io
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redkiln.predict.rows import RowPreparation
from service.datasets.inspect.held_out import write_rows

CELLS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n,\"';\t"), max_size=20
)
QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@QUICK
@given(st.lists(CELLS.filter(str.strip), min_size=12, max_size=30), st.sampled_from(",;|"))
def test_texts_come_back_from_a_quoted_csv(look, texts, delimiter):
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["text", "label"])
    writer.writerows([text, "ab"[number % 2]] for number, text in enumerate(texts))
    looked = look(buffer.getvalue(), text="text", delimiter=delimiter, header=True)
    assert looked.errors == []
    assert sorted(looked.table["text"].to_pylist()) == sorted(texts)


@QUICK
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=12, max_size=30))
def test_numbers_come_back_exactly(look, numbers):
    rows = [{"x": x, "label": "ab"[place % 2]} for place, x in enumerate(numbers)]
    looked = look("\n".join(map(json.dumps, rows)), columns={"x": "numeric"})
    assert looked.errors == []
    assert sorted(looked.table["x"].to_pylist()) == sorted(numbers)


@QUICK
@given(st.text(max_size=300))
def test_any_text_ends_with_a_report(look, text):
    look(text.encode(errors="replace"))


@QUICK
@given(st.lists(st.lists(CELLS, max_size=4), max_size=12))
def test_any_rows_end_with_a_report(look, rows):
    look("\n".join(",".join(row) for row in rows))


def test_shares_come_back_from_the_test_split_with_their_percent_sign(look):
    shares = [f"{place}.5%" for place in range(60)]
    looked = look("\n".join(["share,label", *(f"{s},{'ab'[p % 2]}" for p, s in enumerate(shares))]))
    text = io.StringIO()
    write_rows(looked.path, text)
    rows = [line.split(",")[0] for line in text.getvalue().splitlines()[1:]]
    assert len(rows) == looked.index.num_test > 0
    assert {*rows} <= {*shares}


def test_a_target_with_a_unit_and_decimal_commas_comes_back_from_the_test_split(look):
    prices = [f"€{1000 + 7 * place}.{place % 10}0" for place in range(60)]
    swapped = [price.replace(".", ",") for price in prices]
    looked = look("\n".join(["size;price", *(f"{p};{text}" for p, text in enumerate(swapped))]))
    written = looked.index.target_written
    assert (written.unit, written.decimal) == ("€", ",")
    text = io.StringIO()
    write_rows(looked.path, text)
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert len(rows) == looked.index.num_test > 0
    preparation = RowPreparation({"inputs": [], "target_written": written.model_dump()})
    read = [preparation.read_target(row["price"], column="price", place="") for row in rows]
    assert {f"€{number:.2f}" for number in read} <= set(prices)
    assert preparation.notes == []
