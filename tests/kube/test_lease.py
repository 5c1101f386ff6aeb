"""The names and the fields of a Lease."""

from cronhpa.core.instant import parse_instant
from cronhpa.kube.lease import LeaseName, LeaseSpec, micro_time


def test_a_lease_name_is_namespace_and_name():
    assert LeaseName.parse("a/b") == LeaseName("a", "b")
    for text in ("", "a", "a/", "/b", "a/b/c", "../b", "a/.."):
        assert LeaseName.parse(text) is None
    assert LeaseSpec().holder == ""


def test_a_time_is_written_in_microseconds():
    assert micro_time(parse_instant("2027-01-15T07:00:00.1234567Z")) == "2027-01-15T07:00:00.123456Z"
