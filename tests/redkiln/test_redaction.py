import pytest

from redkiln.redaction import HIDDEN, find_secrets, redact
from service.keys.secret import make_secret

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        # Its own id: the secret differs from process to process.
        pytest.param(f"key {(key := make_secret('key_' + 'a' * 22))} used", key, id="our own"),
        ("HF: hf_AbCdEfGhIjKlMnOpQr", "hf_AbCdEfGhIjKlMnOpQr"),
        ("token ghp_abcdefghijklmnop1234", "ghp_abcdefghijklmnop1234"),
        ("github_pat_11ABCDEFG0abcdef", "github_pat_11ABCDEFG0abcdef"),
        ("Authorization: Bearer abc.DEF-123456", "abc.DEF-123456"),
        ("redis://:hunter2pass@redis:6379/0", "hunter2pass"),
        ("postgresql+psycopg://me:s3cr3tpw@db/redkiln", "s3cr3tpw"),
        (r'{"tail": "a\nhf_AbCdEfGhIjKlMnOp\nBearer abcdef123"}', "hf_AbCdEfGhIjKlMnOp"),
        (r'{"tail": "a\nBearer abcdef123"}', "abcdef123"),
        ("AWS AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "eyJhbGciOiJI"),
        ("password = correct-horse", "correct-horse"),
        ('{"api_key": "abcdef123456"}', "abcdef123456"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI", "wJalrXUtnFEMI"),
        (f"before\n{PEM}\nafter", "MIIEow"),
    ],
)
def test_anything_that_looks_like_a_secret_is_removed(text, secret):
    shown = redact(text)
    assert secret not in shown
    assert HIDDEN in shown


def test_known_secrets_are_removed_whatever_they_look_like():
    assert redact("it is plain-word-42 here", known=["plain-word-42"]) == f"it is {HIDDEN} here"


def test_short_values_are_kept_as_words():
    assert redact("a test is a test", known=["test"]) == "a test is a test"


@pytest.mark.parametrize(
    "text",
    [
        "Memory access fault by GPU node-1 (Agent handle: 0x55d1c0) on address 0x7f42c8a00000.",
        "torch 2.13.0+rocm7.2, kernel 6.18.3",
        "redis://redis:6379/0 is away",
        "epoch 3: loss 0.41, val/accuracy 0.97",
    ],
)
def test_the_rest_of_a_report_is_kept(text):
    assert redact(text) == text


def test_values_of_variables_named_like_secrets_are_found():
    environment = {"REDKILN_WORKER_KEY": "a", "HF_TOKEN": "b", "DB_PASSWORD": "c", "PATH": "d"}
    assert find_secrets(environment) == {"a", "b", "c"}
