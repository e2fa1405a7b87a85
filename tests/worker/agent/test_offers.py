from types import SimpleNamespace

import pytest

from worker.agent.offers import Offer, Offers


class Lease:
    is_held = True

    def close(self):
        self.is_held = False


@pytest.mark.parametrize("is_given", [True, False])
def test_a_kept_slot_holds_only_the_gpu_that_its_job_gets(is_given):
    """A job that ends at once, for example because its spec cannot be read, gets none."""
    slot, lease = SimpleNamespace(), Lease()
    returned = Offers(ready=[Offer(slot, lease)]).let_go([slot], [lease] if is_given else [])
    assert returned == []
    assert lease.is_held == is_given
