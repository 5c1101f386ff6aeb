"""The page of this operator: the objects that it shows, the rights of its callers, and its server."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable

from cronhpa.core.model.calendar import Calendar
from cronhpa.core.model.decision import EVENT_PREFIX
from cronhpa.core.model.instant import Nanoseconds
from cronhpa.core.model.prices import Prices
from cronhpa.core.schedules.calendar_days import calendars_of
from cronhpa.kube.errors import ClusterError
from cronhpa.operator.leader.replica import Replica
from cronhpa.operator.objects.inventory import Inventory
from cronhpa.operator.objects.object_state import ObjectState
from cronhpa.operator.readers.access import AccessReviews, User, Verdict
from cronhpa.operator.settings import Settings
from cronhpa.page.authentication import Authentication, AuthenticationMode
from cronhpa.page.objects import Leader, LiveObject, ObjectMark
from cronhpa.page.questions import ENCODER
from cronhpa.page.rights import AllRights, BusyError, Caller, NotAuthenticatedError, Rights, UnavailableError
from cronhpa.page.server import PageServer, PageSettings
from cronhpa.ports.connections import ConnectionLimits

# As of the other listeners: a sixteenth of the files that the process may open.
_SHARE_OF_FILES = 16
_CONNECTIONS_MIN, _CONNECTIONS_MAX = 8, 64
_SECRET_MIN = 16


class InventoryObjects:
    """The objects from the watches of this replica."""

    def __init__(self, inventory: Inventory, replica: Replica) -> None:
        self._inventory, self._replica = inventory, replica

    def marks(self) -> Iterable[ObjectMark]:
        return (
            ObjectMark(state.key, state.uid, state.served.generation, state.served.version, state.served.spec)
            for state in self._inventory
        )

    def get(self, namespace: str, name: str) -> LiveObject | None:
        state = self._inventory.items.get((namespace, name))
        return None if state is None else self._live(state)

    def namespaces(self) -> Iterable[str]:
        return {namespace for namespace, _ in self._inventory.items}

    def leader(self) -> Leader:
        return Leader(self._replica.term > 0, self._replica.holder, self._replica.part)

    def calendars(self) -> Iterable[Calendar]:
        return self._inventory.calendars.values()

    def _live(self, state: ObjectState) -> LiveObject:
        written, calendars = state.served.parsed.written, self._inventory.calendars
        named = sorted(calendars_of(written)) if calendars and written is not None else ()
        return LiveObject(
            state.namespace,
            state.name,
            state.uid,
            state.served.generation,
            state.served.version,
            state.served.parsed.zone,
            state.served.parsed.text,
            state.served.packed_status,
            _events(state),
            tuple(calendars[name] for name in named if name in calendars),
            state.served.parsed.stated_defaults,
        )


def _events(state: ObjectState) -> bytes:
    schedules = () if state.served.spec is None else state.served.spec.schedules
    events = [schedule for schedule in schedules if schedule.name.startswith(EVENT_PREFIX)]
    return ENCODER.encode(events) if events else b""


class ReviewedRights:
    """The rights of callers, by reviews of the API server."""

    def __init__(self, access: AccessReviews) -> None:
        self._access = access

    def account(self, token: str) -> str | None:
        return self._access.account(token)

    async def caller(self, token: str, address: str) -> Caller:
        try:
            user = await self._access.user(token, address)
        except ClusterError as error:
            raise UnavailableError("the API server does not say who you are") from error
        if user is Verdict.LATER:
            raise BusyError
        if not isinstance(user, User):
            raise NotAuthenticatedError
        return Caller(user.username, user.uid, user.groups, user.extra)

    async def may_get(self, caller: Caller, namespace: str, name: str) -> bool:
        user = User(caller.username, caller.uid, caller.groups, caller.extra)
        try:
            verdict = await self._access.verdict(user, namespace, name)
        except ClusterError as error:
            raise UnavailableError("the API server does not say what you may see") from error
        if verdict is Verdict.LATER:
            raise BusyError
        return verdict is Verdict.ALLOWED


def page_server(
    settings: Settings,
    objects: InventoryObjects,
    access: AccessReviews,
    now: Callable[[], Nanoseconds],
    files: int,
) -> PageServer | None:
    """
    The page by the settings, bound to its port; None if the settings name no port.

    files: the limit of the process's open files. Raises OSError for a port that cannot be bound, a file that cannot be
    read, and a secret that is too short.
    """
    if settings.page_port is None:
        return None
    mode = AuthenticationMode(settings.page_authentication)
    rights: Rights = AllRights() if mode is AuthenticationMode.NONE else ReviewedRights(access)
    connections = max(_CONNECTIONS_MIN, min(_CONNECTIONS_MAX, files // _SHARE_OF_FILES))
    page_settings = PageSettings(
        settings.page_host,
        settings.page_port,
        Authentication(
            mode,
            _secret(settings),
            settings.page_user_header,
            settings.page_groups_header,
            settings.page_groups_separator,
            settings.page_proxy_certificate_names,
        ),
        settings.store_address,
        _tls(settings),
        ConnectionLimits(connections, per_peer=connections * 3 // 4),
        Prices(settings.pod_price, settings.core_price, settings.gib_price),
        settings.controller_options,
    )
    return PageServer(page_settings, objects, rights, now)


def _secret(settings: Settings) -> bytes:
    file = settings.page_proxy_secret_file
    if file is None:
        return b""
    secret = file.read_bytes().strip()
    if len(secret) < _SECRET_MIN:
        raise OSError(f"{file}: a secret of {len(secret)} bytes: at least {_SECRET_MIN} are needed")
    return secret


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.page_tls_cert_file is None or settings.page_tls_key_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(settings.page_tls_cert_file, settings.page_tls_key_file)
    if settings.page_client_ca_file is not None:
        context.load_verify_locations(settings.page_client_ca_file)
        # Users have tokens instead of certificates.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context
