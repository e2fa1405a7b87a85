"""Doubts about a data set reach people who use Python, in Python's words."""

import asyncio
import warnings

import pytest

import redkiln

WARNINGS = [
    {"code": "spellings", "message": "classes 'YES', 'yes' count as different"},
    {"code": "numbers", "message": "set column=booking=categorical if they are names"},
    {
        "code": "copies",
        "message": "9 copies; GET /v1/datasets/{id} lists all of them under `pairs`",
    },
]


@pytest.fixture
def doubtful(fake):
    fake.dataset_warnings = WARNINGS


def test_a_push_that_waits_and_a_submission_warn_once(doubtful, client, image_folder):
    with pytest.warns(redkiln.DatasetWarning) as caught:
        data = client.push_dataset(image_folder, wait=True)
    client.submit({"dataset": data.id})  # warnings are errors here
    (warned,) = caught
    assert warned.filename == __file__
    first, *lines = str(warned.message).splitlines()
    assert first == "data set flowers has 3 warnings:"
    assert lines == [
        "classes 'YES', 'yes' count as different",
        'set columns={"booking": "categorical"} if they are names',
        '9 copies; `client.dataset("flowers").warnings` lists all of them under `pairs`',
    ]
    assert warned.message.dataset.id == data.id


def test_a_submission_warns_of_a_set_that_another_program_pushed(doubtful, client, image_folder):
    client.push_dataset(image_folder)
    with pytest.warns(redkiln.DatasetWarning, match="3 warnings"):
        client.submit({"dataset": "flowers"})


def test_a_submission_of_an_asyncio_program_warns_once_where_it_is_awaited(
    doubtful, fake, client, image_folder
):
    client.push_dataset(image_folder)

    async def submit_twice():
        async with redkiln.AsyncClient(fake.url) as asynchronous:
            with pytest.warns(redkiln.DatasetWarning, match="3 warnings") as caught:
                await asynchronous.submit({"dataset": "flowers"})
            await asynchronous.submit({"dataset": "flowers"})  # warnings are errors here
        async with redkiln.AsyncClient(fake.url) as asynchronous:
            asynchronous.warns_of_data = False
            await asynchronous.submit({"dataset": "flowers"})
        return caught

    (warned,) = asyncio.run(submit_twice())
    assert warned.filename == __file__


def test_a_set_shows_that_it_has_warnings(doubtful, client, image_folder):
    data = client.push_dataset(image_folder)
    data = client.dataset(data.id)
    assert str(data) == "<DatasetView flowers (ds_1): ready, 3 warnings: see .warnings>"
    shown = '<DatasetProblem numbers: set columns={"booking": "categorical"} if they are names>'
    assert str(data.warnings[1]) == shown
    assert data.describe_warnings()[1] in shown
    data.notes = ["to change it: target=NAME"]
    assert data.describe_notes() == ['to change it: target="NAME"']


def test_a_client_can_be_told_not_to_warn(doubtful, client, image_folder):
    client.warns_of_data = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.push_dataset(image_folder, wait=True)
        client.submit({"dataset": "flowers"})
