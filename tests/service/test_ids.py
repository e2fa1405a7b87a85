from service.ids import new_id


def test_ids_sort_in_order_of_creation():
    made = [new_id("job") for _ in range(1000)]
    assert made == sorted(made)
    assert len(set(made)) == 1000


def test_an_id_has_its_prefix_and_only_letters_and_digits():
    prefix, rest = new_id("att").split("_")
    assert prefix == "att"
    assert len(rest) == 22
    assert rest.isalnum()
    assert rest == rest.lower()
