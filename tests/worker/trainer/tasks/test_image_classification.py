"""What an image job asks to be measured."""

from worker.trainer.tasks import image_classification


def test_speeds_do_not_depend_on_the_number_of_classes(make_job, start, monkeypatch):
    settle, keys = image_classification.settle_batch_size, []

    def note(*args, key, **options):
        keys.append(dict(key))
        settle(*args, key=key, **options)

    monkeypatch.setattr(image_classification, "settle_batch_size", note)
    _, work = start(make_job())
    assert work.model.head.out_features == 3
    assert 3 not in keys[0].values()
    assert keys[0]["name"] == "mnist-cnn"
    assert keys[0]["options"]["image_size"] == 12
