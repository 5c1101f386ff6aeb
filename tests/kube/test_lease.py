"""The names and the fields of a Lease, and the fields of others that a renewal keeps."""

import json

from aiohttp import web

from cronhpa.core.model.instant import parse_instant
from cronhpa.kube.lease import LeaseName, Leases, LeaseSpec, micro_time
from kube.fake_api import FakeApi

PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/cronhpa"


def test_a_lease_name_is_namespace_and_name():
    assert LeaseName.parse("a/b") == LeaseName("a", "b")
    for text in ("", "a", "a/", "/b", "a/b/c", "../b", "a/.."):
        assert LeaseName.parse(text) is None
    assert LeaseSpec().holder == ""


def test_a_time_is_written_in_microseconds():
    assert micro_time(parse_instant("2027-01-15T07:00:00.1234567Z")) == "2027-01-15T07:00:00.123456Z"


async def test_a_renewal_leaves_labels_annotations_owners_and_finalizers():
    """A PUT removes fields that it does not send: two renewals, with a change by somebody else between them."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "release", "uid": "u-1", "controller": True}
    others = {
        "labels": {"team": "shop"},
        "annotations": {"note": "ours"},
        "ownerReferences": [owner],
        "finalizers": ["example.com/kept"],
    }
    kept = {"metadata": {"name": "cronhpa", "namespace": "ops", "resourceVersion": "7", **others}, "spec": {}}
    sent = []

    async def answer(request):
        if request.method == "PUT":
            sent.append(await request.json())
            kept.update(sent[-1])
        return web.Response(text=json.dumps(kept))

    api = FakeApi()
    api.answers[PATH] = answer
    async with api.client() as client:
        leases, name = Leases(client), LeaseName("ops", "cronhpa")
        lease = await leases.get(name)
        renewed = await leases.replace(name, lease, LeaseSpec("one"))
        await leases.replace(name, renewed, LeaseSpec("one"))

    assert [{"name": "cronhpa", "namespace": "ops", "resourceVersion": "7", **others}] * 2 == [
        body["metadata"] for body in sent
    ]
    assert "one" == sent[1]["spec"]["holderIdentity"]
