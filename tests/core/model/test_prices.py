"""What a pod costs by the hour: stated, or by what it requests."""

import pytest

from cronhpa.core.model.prices import Prices

# Half a core and two GiB.
REQUESTS = {"cpu": 500, "memory": 2 * 2**30 * 1000}


@pytest.mark.parametrize(
    ("prices", "of_pod"),
    [
        (Prices(), None),
        (Prices(pod=0.4), 0.4),
        (Prices(core=0.04), 0.02),
        (Prices(gib=0.005), 0.01),
        (Prices(core=0.04, gib=0.005), 0.03),
        (Prices(pod=0.4, core=9.0), 0.4),
    ],
)
def test_a_pod_costs_what_is_stated_or_what_it_requests(prices, of_pod):
    assert pytest.approx(of_pod) == prices.of_pod(REQUESTS)
    assert "" == prices.unknown(REQUESTS)


def test_a_pod_whose_request_for_what_is_priced_is_not_known_has_no_price():
    """
    It would be too low a price, in silence. Found: it said that the pods request no memory, of an object that scales by
    CPU, whose status has that request alone.
    """
    prices = Prices(core=0.04, gib=0.005)

    assert prices.of_pod({"cpu": 500}) is None
    assert "its price is not known: no request for memory is known: state a pod's price" == prices.unknown({"cpu": 500})
    assert "its price is not known: no request for cpu or memory is known: state a pod's price" == prices.unknown({})
    assert 0.4 == Prices(pod=0.4, core=1.0).of_pod({})
