def test_without_a_name_the_key_in_use_is_printed_and_nothing_else(redkiln, monkeypatch, tmp_path):
    (tmp_path / "admin.key").write_text("rk_admin\n")
    monkeypatch.setenv("REDKILN_KEY_FILE", str(tmp_path / "admin.key"))
    assert redkiln("keys", "show").out == "rk_admin\n"
    assert redkiln("keys", "show", "--json").json == {"secret": "rk_admin"}


def test_a_key_on_the_command_line_is_the_one_in_use(redkiln):
    assert redkiln("keys", "show", "--key", "rk_mine").out == "rk_mine\n"


def test_without_any_key_the_error_says_how_to_give_one(redkiln, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDKILN_KEY", raising=False)
    monkeypatch.delenv("REDKILN_KEY_FILE", raising=False)
    done = redkiln("keys", "show")
    assert done.code != 0
    assert "redkiln keys" in done.err
