"""Tables that fit 80 columns."""

from rich import box
from rich.table import Table


def plain_table(*columns: str, right: tuple[str, ...] = (), fold: tuple[str, ...] = ()) -> Table:
    """A table with a rule under its heads and nothing else.

    Args:
        columns: their heads; a head that begins with `!` may not be cut.
        right: heads whose column is aligned to the right.
        fold: heads whose column may break over lines.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        name = column.removeprefix("!")
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
            min_width=None if not column.startswith("!") else len(name),
        )
    return table
