import hashlib
import json

import pytest
from typer.testing import CliRunner

from redkiln.cli.app import build_app
from redkiln.client import Client
from redkiln.errors import ModelError
from redkiln.predict.signature import find_miss, read_signer
from redkiln.predict.verify import verify
from service.provenance.signing import load_signer
from tests.redkiln.predict.test_verify import plant

MANIFEST = json.dumps({"files": {}}).encode()


@pytest.fixture
def downloaded(client, worker, submit, tmp_path):
    """A folder with the manifest of a job and its signature."""
    job_id = submit()["id"]
    attempt = worker.claim()
    commit = {
        "kind": "manifest",
        "name": "manifest.json",
        "media_type": "application/json",
        "sha256": attempt.upload(MANIFEST),
        "size_bytes": len(MANIFEST),
    }
    assert attempt.finish("succeeded", artifacts=[commit]).status_code == 200
    with Client(str(client.base_url)) as own:
        own.download_all(job_id, tmp_path / "out")
    return tmp_path / "out"


def test_a_downloaded_manifest_is_signed_by_the_key_of_its_service(client, settings, downloaded):
    key = client.get("/v1/signing-key").json()
    signer = read_signer(downloaded)
    assert signer.model_dump() == key
    assert key["key_id"] == hashlib.sha256(bytes.fromhex(key["public_key"])).hexdigest()[:16]
    assert (settings.keys_dir / "signing.key").stat().st_mode & 0o777 == 0o600
    assert find_miss(signer, wanted=key["public_key"]) is None
    assert find_miss(signer, wanted=key["key_id"]) is None
    printed = CliRunner().invoke(build_app(), ["keys", "signing", "--url", str(client.base_url)])
    assert printed.stdout.strip() == key["public_key"]


def test_a_changed_manifest_and_a_changed_signature_are_caught(downloaded):
    manifest = downloaded / "manifest.json"
    manifest.write_bytes(MANIFEST + b" ")
    with pytest.raises(ModelError, match="is not the file that was signed"):
        read_signer(downloaded)
    manifest.write_bytes(MANIFEST)
    path = downloaded / "manifest.json.sig"
    signed = json.loads(path.read_text())
    for change in ({"signature": "00" * 64}, {"kind": "file"}, {"job_id": "job_other"}):
        path.write_text(json.dumps(signed | change))
        with pytest.raises(ModelError, match="is not the file that was signed"):
            read_signer(downloaded)
    path.write_text("{")
    with pytest.raises(ModelError, match="is not a signature"):
        read_signer(downloaded)


def test_a_manifest_that_a_script_wrote_proves_nothing(client, worker, submit, tmp_path):
    content = json.dumps({"verification": {"verified": True}}).encode()
    job_id = submit()["id"]
    attempt = worker.claim()
    commit = {
        "kind": "file",
        "name": "manifest.json",
        "media_type": "application/json",
        "sha256": attempt.upload(content),
        "size_bytes": len(content),
    }
    assert attempt.finish("succeeded", artifacts=[commit]).status_code == 200
    with Client(str(client.base_url)) as own:
        (artifact,) = own.artifacts(job_id)
        path = own.download(artifact, tmp_path / "manifest.json")
        assert read_signer(tmp_path) is None
        signature = own.signature(artifact.id)
    path.with_name("manifest.json.sig").write_text(signature.model_dump_json())
    with pytest.raises(ModelError, match="signed as a file of the kind 'file'"):
        read_signer(tmp_path)


def test_a_manifest_of_another_job_is_refused(tmp_path):
    content = json.dumps({"job": {"id": "job_1"}}).encode()
    (tmp_path / "manifest.json").write_bytes(content)
    signer = load_signer(tmp_path / "signing.key")
    path = tmp_path / "manifest.json.sig"
    for job_id in ("job_1", "job_2"):
        signed = signer.sign(
            kind="manifest", job_id=job_id, sha256=hashlib.sha256(content).hexdigest()
        )
        path.write_text(signed.model_dump_json())
        if job_id == "job_1":
            assert read_signer(tmp_path) == signer.key
    with pytest.raises(ModelError, match="was not written by an export"):
        read_signer(tmp_path)


def test_another_installation_cannot_pretend_to_be_this_one(downloaded, tmp_path):
    ours = read_signer(downloaded)
    theirs = load_signer(tmp_path / "other" / "signing.key")
    forged = theirs.sign(
        kind="manifest", job_id="job_1", sha256=hashlib.sha256(MANIFEST).hexdigest()
    )
    path = downloaded / "manifest.json.sig"
    path.write_text(forged.model_dump_json())
    miss = find_miss(read_signer(downloaded), wanted=ours.public_key)
    assert miss == f"manifest.json is signed by {theirs.key.key_id}, not by {ours.public_key}"
    claimed = forged.model_copy(update={"key_id": ours.key_id})
    path.write_text(claimed.model_dump_json())
    with pytest.raises(ModelError, match="is not the file that was signed"):
        read_signer(downloaded)
    path.unlink()
    assert "is not signed" in find_miss(read_signer(downloaded), wanted=ours.key_id)


def test_the_key_stays_and_a_damaged_one_is_named(tmp_path):
    path = tmp_path / "keys" / "signing.key"
    assert load_signer(path).key == load_signer(path).key
    path.write_text("no key\n")
    with pytest.raises(ValueError, match="restore it from a backup"):
        load_signer(path)


def test_verify_asks_for_the_wanted_key(tmp_path):
    model = plant(tmp_path / "model")
    signer = load_signer(tmp_path / "signing.key")
    manifest = model.with_name("manifest.json")
    digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
    signed = signer.sign(kind="manifest", job_id="job_1", sha256=digest)
    manifest.with_name("manifest.json.sig").write_text(signed.model_dump_json())
    verdict = verify(model, threads=1, signed_by=signer.key.key_id)
    assert (verdict.verified, verdict.signer) == (True, signer.key)
    other = verify(model, threads=1, signed_by="0123456789abcdef")
    assert (other.verified, len(other.misses)) == (False, 1)
