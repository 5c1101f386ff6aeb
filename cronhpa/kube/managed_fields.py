"""Who else sets the replicas of a target, by the managed fields that the API server keeps of each object."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from cronhpa.kube.client import FIELD_MANAGER, Client


class _SpecFields(Struct):
    replicas: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="f:replicas")


class _Fields(Struct):
    spec: _SpecFields = msgspec.field(default_factory=_SpecFields, name="f:spec")


class _Managed(Struct):
    manager: str = ""
    time: str = ""
    fields_v1: _Fields = msgspec.field(default_factory=_Fields, name="fieldsV1")


class _ManagedMeta(Struct):
    name: str = ""
    managed_fields: tuple[_Managed, ...] = msgspec.field(default=(), name="managedFields")


class _ManagedObject(Struct):
    metadata: _ManagedMeta


class _ManagedList(Struct):
    items: tuple[_ManagedObject, ...] = ()


async def replicas_manager(client: Client, collection: str, name: str) -> str:
    """
    The newest field manager of an object's replicas that is not this operator; "" if the object names none.

    collection: the path of the object's kind in its namespace. Raises ClusterError.
    """
    # A list of one object, as the operator has the right to list the watched kinds already.
    answer = await client.get(collection, _ManagedList, {"fieldSelector": f"metadata.name={name}"})
    others = [
        entry
        for listed_object in answer.items
        if listed_object.metadata.name == name
        for entry in listed_object.metadata.managed_fields
        if entry.manager != FIELD_MANAGER and bytes(entry.fields_v1.spec.replicas)
    ]
    return max(others, key=lambda entry: entry.time, default=_Managed()).manager
