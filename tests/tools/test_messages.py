import textwrap

from tools.messages import FOLDERS, ROOT, find_messages


def texts(source: str) -> list[str]:
    return [message.text for message in find_messages(textwrap.dedent(source))]


def test_an_error_is_listed_with_its_line_and_the_names_of_its_holes():
    found = find_messages('x = 1\nraise ValueError(f"there is no job {name!r}; "\n f"see {url}")\n')
    assert [(message.line, message.text) for message in found] == [
        (2, "there is no job {name}; see {url}")
    ]


def test_added_strings_are_one_message():
    assert texts('print("column " + name + " is empty")') == ["column {name} is empty"]


def test_docstrings_single_words_patterns_and_sql_are_not_messages():
    source = '''
        """Read a file."""
        log.info("file_read", path=path)
        pattern = re.compile("two words")
        query = "SELECT name FROM job"
    '''
    assert texts(source) == []


def test_the_docstring_of_a_command_is_a_message():
    source = '''
        @app.command()
        def train():
            """Train a model."""
    '''
    assert texts(source) == ["Train a model."]


def test_descriptions_of_fields_are_marked():
    found = find_messages('seed = Field(0, description="Seed of the order")')
    assert [message.is_reference for message in found] == [True]


def test_every_default_folder_exists():
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
