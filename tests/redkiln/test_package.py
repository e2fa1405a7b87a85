from importlib.resources import files

import redkiln


def test_completion_offers_what_a_user_needs_and_nothing_else():
    assert dir(redkiln) == sorted(redkiln.__all__)
    assert "Client" in dir(redkiln)


def test_type_checkers_find_the_packages_types():
    assert (files("redkiln") / "py.typed").is_file()
