import pytest

from redkiln.errors import ConnectionFailed, DigestMismatch, TransferError

JOB_ID = "job_0123456789abcdefghijkl"


@pytest.fixture
def model(client):
    return next(a for a in client.artifacts(JOB_ID) if a.kind == "model")


def ranges(fake):
    return [h.get("range") for _, path, h in fake.requests if path.endswith("/content")]


def parts(folder):
    return list(folder.glob("*.part"))


def test_a_download_has_the_published_bytes_and_leaves_no_part_file(client, model, tmp_path):
    path = client.download(model, tmp_path / "m.onnx")
    assert path.stat().st_size == model.size_bytes
    assert not parts(tmp_path)


def test_a_folder_gets_the_file_under_its_own_name(client, model, tmp_path):
    assert client.download(model, tmp_path) == tmp_path / "model.onnx"


def test_a_broken_download_resumes_where_it_stopped(fake, client, model, tmp_path):
    fake.cut_downloads = [1000, 2000]
    seen = []
    client.download(model, tmp_path / "m", on_bytes=seen.append)
    assert ranges(fake) == [None, "bytes=1000-", "bytes=3000-"]
    assert sum(seen) == model.size_bytes


def test_a_later_call_resumes_an_interrupted_download(fake, client, model, tmp_path):
    fake.cut_downloads = [1000, 0, 0, 0, 0]
    with pytest.raises(ConnectionFailed):
        client.download(model, tmp_path / "m")
    assert [part.stat().st_size for part in parts(tmp_path)] == [1000]
    fake.cut_downloads, fake.requests = [], []
    client.download(model, tmp_path / "m")
    assert ranges(fake) == ["bytes=1000-"]


def test_a_part_file_with_wrong_bytes_is_discarded_and_fetched_again(client, model, tmp_path):
    part = tmp_path / f"m.{model.sha256[:12]}.part"
    part.write_bytes(b"wrong" * 100)
    client.download(model, tmp_path / "m")
    assert (tmp_path / "m").stat().st_size == model.size_bytes
    assert not parts(tmp_path)


def test_a_complete_file_is_not_fetched_again(fake, client, model, tmp_path):
    client.download(model, tmp_path / "m")
    fake.requests.clear()
    client.download(model, tmp_path / "m")
    assert ranges(fake) == []


def test_corrupted_bytes_never_get_the_final_name(fake, client, model, tmp_path):
    fake.corrupt = True
    with pytest.raises(DigestMismatch, match=r"model\.onnx was corrupted in transit"):
        client.download(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_leads_out_of_the_folder_is_not_written(client, model, tmp_path):
    evil = model.model_copy(update={"name": "../evil"})
    with pytest.raises(TransferError, match="cannot be used as a file name"):
        client.download(evil, tmp_path)


def test_an_unwritable_path_is_an_error(client, model, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(TransferError, match="cannot be written"):
        client.download(model, tmp_path / "file" / "m")
