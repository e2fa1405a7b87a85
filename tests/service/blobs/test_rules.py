from service import housekeeping
from service.blobs.rules import discard


def test_leftovers_of_a_crash_in_the_storage_are_removed_when_they_are_old(
    services, submit, worker
):
    submit()
    used = worker.claim().upload(b"held by an attempt")
    orphan = services.storage.put([b"no row ever came"]).sha256
    housekeeping.sweep_storage(services)
    housekeeping.collect_blobs(services)
    assert services.storage.stat(orphan) is not None
    services.settings.staging_hours = -1
    housekeeping.sweep_storage(services)
    housekeeping.collect_blobs(services)
    assert services.storage.stat(orphan) is None
    assert services.storage.stat(used) is not None


def test_a_discarded_blob_that_is_needed_again_stays(services, submit, worker):
    submit()
    sha256 = worker.claim().upload(b"needed")
    services.database.write(lambda session: discard(session, [sha256]))
    housekeeping.collect_blobs(services)
    assert services.storage.stat(sha256) is not None
