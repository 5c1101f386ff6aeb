"""The operator's settings: environment variables CRONHPA_*, each also an option of `cronhpa run`."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from cronhpa.core.model.instant import SECOND, parse_duration
from cronhpa.core.model.nearest import nearest
from cronhpa.core.model.spec import Placeholders
from cronhpa.forecasting.messages import DaskCluster
from cronhpa.history.database.address import StoreAddress, store_address
from cronhpa.history.imports.prometheus import PrometheusError, prometheus_url
from cronhpa.history.imports.promql import QueryError, QueryTemplate
from cronhpa.kube.lease import LeaseName
from cronhpa.operator.controller_settings import PREFIX, ControllerSettings, Duration, variable_of
from cronhpa.operator.leader.election import LEASE_SECONDS_MAX, UNKNOWN, LeaseTiming
from cronhpa.operator.writes.placeholder_settings import PlaceholderKinds, PlaceholderSettings

# As in client-go's components; another process, or the same one after a restart, is another replica.
_IDENTITY = f"{socket.gethostname()}_{uuid.uuid4()}"


def _as_prometheus_url(text: str) -> str:
    try:
        prometheus_url(text)
    except PrometheusError as problem:
        raise ValueError(str(problem)) from None
    return text


def _as_store(value: object) -> str:
    store_address(str(value))
    return str(value)


def _as_queries(queries: dict[str, str]) -> dict[str, str]:
    for metric, text in queries.items():
        try:
            QueryTemplate(text)
        except QueryError as problem:
            raise ValueError(f"the query for {metric}: {problem}") from None
    return queries


def _as_dask_scheduler(text: str, info: ValidationInfo) -> str:
    """The address, if it is safe: dask authenticates nobody and runs received code, so it needs mutual TLS."""
    if info.data.get("dask_insecure"):
        if not text.startswith(("tls://", "tcp://")):
            raise ValueError("tls://HOST:PORT or tcp://HOST:PORT is accepted")
        return text
    if not text.startswith("tls://"):
        raise ValueError(
            "only tls://HOST:PORT is accepted: whoever reaches a dask scheduler runs code in what connects to it,"
            " beside its credentials (a ServiceAccount's token). CRONHPA_DASK_INSECURE=true takes that risk"
        )
    missing = [name for name in ("dask_ca_file", "dask_cert_file", "dask_key_file") if info.data.get(name) is None]
    if missing:
        names = ", ".join(f"CRONHPA_{name.upper()}" for name in missing)
        raise ValueError(f"{names} must name PEM files: without them nobody knows whose scheduler it is")
    return text


# A name of a header field.
_HEADER = r"^[A-Za-z0-9-]{1,64}$"


def _as_page_host(host: str, info: ValidationInfo) -> str:
    """The host, if the settings that protect the page there are complete: TLS, and the authentication of callers."""
    given = info.data.get
    has_tls = given("page_tls_cert_file") is not None
    if has_tls != (given("page_tls_key_file") is not None):
        raise ValueError("CRONHPA_PAGE_TLS_CERT_FILE and CRONHPA_PAGE_TLS_KEY_FILE are stated together")
    if given("page_client_ca_file") is not None and not has_tls:
        raise ValueError("CRONHPA_PAGE_CLIENT_CA_FILE proves a proxy by its certificate: that needs TLS")
    if given("page_proxy_names") and given("page_client_ca_file") is None:
        raise ValueError("CRONHPA_PAGE_PROXY_NAMES are names in certificates: name CRONHPA_PAGE_CLIENT_CA_FILE, too")
    by_proxy = given("page_proxy_secret_file") is not None or given("page_client_ca_file") is not None
    if given("page_authentication") == "proxy" and not by_proxy:
        raise ValueError(
            "CRONHPA_PAGE_AUTHENTICATION=proxy needs CRONHPA_PAGE_PROXY_SECRET_FILE or CRONHPA_PAGE_CLIENT_CA_FILE:"
            " without them anybody could send a proxy's headers"
        )
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise ValueError(f"{host!r}: an address such as 127.0.0.1 or 0.0.0.0 is accepted") from None
    if is_loopback:
        return host
    if given("page_authentication") == "none":
        raise ValueError("without authentication the page is served at 127.0.0.1 or ::1 alone")
    if not has_tls and not given("page_insecure"):
        raise ValueError(
            "tokens would cross the network in clear text: name CRONHPA_PAGE_TLS_CERT_FILE and _KEY_FILE, or take that"
            " risk with CRONHPA_PAGE_INSECURE=true"
        )
    return host


def _as_lease_duration(text: str, info: ValidationInfo) -> str:
    """The duration, if it can be believed and duration > deadline > 1.2 x retry period, as in client-go."""
    duration = parse_duration(text)
    if duration > LEASE_SECONDS_MAX * SECOND:
        raise ValueError(
            f"{text!r}: at most {LEASE_SECONDS_MAX}s is accepted: other replicas believe in no longer duration, so that"
            " a mistake in a Lease cannot stop decisions for long"
        )
    if duration % SECOND:
        raise ValueError(f"{text!r}: a Lease counts whole seconds")
    deadline, retry = (info.data.get(f"leader_elect_{name}") for name in ("renew_deadline", "retry_period"))
    if deadline is not None and duration <= parse_duration(deadline):
        raise ValueError(f"it must be longer than CRONHPA_LEADER_ELECT_RENEW_DEADLINE, which is {deadline}")
    if deadline is not None and retry is not None and parse_duration(deadline) <= 1.2 * parse_duration(retry):
        raise ValueError(
            f"CRONHPA_LEADER_ELECT_RENEW_DEADLINE={deadline} must be longer than 1.2 times"
            f" CRONHPA_LEADER_ELECT_RETRY_PERIOD={retry}"
        )
    return text


def _as_identity(text: str) -> str:
    if text == UNKNOWN:
        raise ValueError(f"{text!r} is the holder in the place of a deleted Lease: name the replica otherwise")
    return text


def _as_shards(count: int, info: ValidationInfo) -> int:
    given = info.data.get
    if count > 1 and not given("leader_elect"):
        raise ValueError("shards are held by Leases: that needs CRONHPA_LEADER_ELECT=true")
    if count > 1 and given("namespaces"):
        raise ValueError("shards divide all namespaces: state CRONHPA_SHARDS or CRONHPA_NAMESPACES, not both")
    if count > 1 and given("placeholders") in _OF_DEPLOYMENTS:
        # Each replica may write in the namespaces of its shards alone, and those Deployments are in one namespace.
        raise ValueError("with shards CRONHPA_PLACEHOLDERS is none or CapacityBuffer")
    return count


_OF_DEPLOYMENTS = ("auto", "Deployment")


def _as_priority_class(name: str, info: ValidationInfo) -> str:
    if not name and info.data.get("placeholders") in _OF_DEPLOYMENTS:
        raise ValueError(
            "placeholders that are Deployments need one of low priority, or no pod could take their place: name it,"
            " or state CRONHPA_PLACEHOLDERS=CapacityBuffer"
        )
    return name


def _as_usual_placeholders(most: int, info: ValidationInfo) -> int:
    if most and info.data.get("placeholders") == "none":
        raise ValueError("objects can have none while CRONHPA_PLACEHOLDERS is none: state auto there, or 0 here")
    return most


_OF_TESTS = "CRONHPA_TESTBED_"
_OF_SERVICE = re.compile(r"_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$")


class Settings(ControllerSettings):
    """All of them."""

    kubeconfig: str | None = Field(
        None,
        description="Path of a kubeconfig; without it and a context, the pod's account, else the default kubeconfig.",
    )
    context: str | None = Field(None, description="Context of the kubeconfig.")
    namespaces: str = Field("", description="Namespaces to act in, separated by commas; empty, all of them.")
    store: Annotated[str, BeforeValidator(_as_store)] = Field(
        "cronhpa-history.db",
        description=(
            "Where load history and forecasts are: a SQLite file, or postgresql://USER@HOST/DATABASE, which replicas"
            " share."
        ),
    )
    store_password_file: Path | None = Field(None, description="A file with the password of the PostgreSQL.")
    listen_host: str = Field(
        "",
        description="Address of both ports. Empty: all in a container, else 127.0.0.1.",
    )
    listen_port: int = Field(
        8080, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics; 0 takes a free one."
    )
    probe_port: int = Field(
        8081, ge=0, le=65535, description="Port of /healthz and /readyz alone, for the kubelet; 0 takes a free one."
    )
    history_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of past decisions, at 127.0.0.1 alone: for `kubectl port-forward`; 0 takes a free one.",
    )
    metrics_objects: bool = Field(
        default=True, description="Whether /metrics tells of each object; 19 to 33 series for each."
    )
    metrics_namespaces: str = Field(
        "", description="Namespaces whose objects /metrics tells of, separated by commas; empty, all of them."
    )
    # The page. The check of the host reads the fields in front of it.
    page_port: int | None = Field(
        None, ge=0, le=65535, description="Port of the page in a browser; absent, there is none; 0 takes a free one."
    )
    page_authentication: Literal["token", "proxy", "none"] = Field(
        "token",
        description=(
            "token: callers send a bearer token. proxy: a front proxy names them, too. none: everybody who reaches the"
            " port sees every object; at loopback alone."
        ),
    )
    page_user_header: str = Field(
        "X-Forwarded-User", pattern=_HEADER, description="Header in which the proxy names the user."
    )
    page_groups_header: str = Field(
        "X-Forwarded-Groups",
        pattern=_HEADER,
        description="Header in which the proxy names groups.",
    )
    page_groups_separator: Literal[",", ""] = Field(
        ",",
        description=(
            "What separates the groups of that header: a comma, or nothing, where each group has a header line of its"
            " own."
        ),
    )
    page_proxy_secret_file: Path | None = Field(
        None, description="A file with the secret that the proxy sends as X-Cronhpa-Proxy-Secret."
    )
    page_client_ca_file: Path | None = Field(
        None, description="Certificates of the authority whose clients are the proxy; needs TLS."
    )
    page_proxy_names: str = Field(
        "",
        description=(
            "Common or DNS names of the proxy's certificate, separated by commas; empty, every certificate of that"
            " authority is a proxy's."
        ),
    )
    page_tls_key_file: Path | None = Field(None, description="The key of the page's certificate.")
    page_tls_cert_file: Path | None = Field(None, description="The page's certificate, PEM with its chain.")
    page_insecure: bool = Field(
        default=False, description="Whether tokens may come to the page in clear text from other machines."
    )
    page_host: Annotated[str, AfterValidator(_as_page_host)] = Field(
        "127.0.0.1", description="Address of the page; another one than loopback needs TLS and authentication."
    )
    pod_price: float | None = Field(None, ge=0, description="Price of a pod by the hour, for costs on the page.")
    core_price: float | None = Field(None, ge=0, description="Price of a core by the hour.")
    gib_price: float | None = Field(None, ge=0, description="Price of a GiB of memory by the hour.")
    object_watch: Literal["kopf", "informer"] = Field(
        "kopf",
        description=(
            "What watches the CronHPA objects: kopf; or informer, which takes less CPU and memory for more than some"
            " 2,000 of them, and which shards always use."
        ),
    )
    check_standing: bool = Field(
        default=False,
        description="Whether decisions that stand are made anew in each period, and differences are logged.",
    )
    log_format: Literal["json", "text"] = Field("text", description="json or text.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error."
    )
    forecast_interval: Duration = Field("60s", description="Time between two forecasts.")
    prometheus_url: Annotated[str, AfterValidator(_as_prometheus_url)] | None = Field(
        None, description="A Prometheus to take the past of loads from, such as http://prometheus.monitoring:9090."
    )
    prometheus_queries: Annotated[dict[str, str], AfterValidator(_as_queries)] = Field(
        {}, description="PromQL by metric, as JSON; $namespace and $target stand for those of the object."
    )
    prometheus_token_file: Path | None = Field(None, description="A file with a bearer token for it.")
    sources: Path | None = Field(
        None, description="A YAML file of named sources of metrics, which need no adapter; read again when it changes."
    )
    calendars: Path | None = Field(
        None, description="A YAML file of named calendars (.ics files and feeds); read again when it changes."
    )
    placeholders: PlaceholderKinds = Field(
        "none",
        description=(
            "What holds room on nodes: none, CapacityBuffer, Deployment, or auto: a CapacityBuffer where the cluster"
            " has that kind, else a Deployment."
        ),
    )
    placeholder_namespace: str = Field("", description="Namespace of those Deployments. Empty: as that of the Lease.")
    placeholder_priority_class: Annotated[str, AfterValidator(_as_priority_class)] = Field(
        "",
        description=(
            "Their PriorityClass: below all others, and not below -10, where cluster-autoscaler adds no node."
        ),
    )
    placeholder_image: str = Field("registry.k8s.io/pause:3.10", description="Their image.")
    placeholder_owner: str = Field(
        "", description="A Role in that namespace that owns them: without it, as when the chart has none, they go."
    )
    placeholder_buffer_owner: str = Field(
        "",
        description=(
            "A ClusterRole, or a Role in each of CRONHPA_NAMESPACES, with which CapacityBuffers go. Empty: with their"
            " objects."
        ),
    )
    placeholder_max: int = Field(
        100, ge=1, description="The most placeholders at once, of all objects that a replica serves."
    )
    # The check reads the setting of kinds, which is in front of it.
    placeholder_max_per_object: Annotated[int, AfterValidator(_as_usual_placeholders)] = Field(
        0,
        ge=0,
        le=10_000,
        description="The most of an object that states none; 0: it has none.",
    )
    placeholder_node_startup: Duration = Field("5m", description="nodeStartupSeconds of those objects.")
    forecast_workers: int = Field(
        1, ge=1, le=64, description="Processes that learn and forecast; each takes some 100 MB."
    )
    # The check of dask_scheduler reads the fields in front of it.
    dask_insecure: bool = Field(
        default=False,
        description="Whether a dask scheduler may be reached without TLS: whoever reaches it owns the pod.",
    )
    dask_ca_file: Path | None = Field(None, description="Certificates of the authority of the dask cluster.")
    dask_cert_file: Path | None = Field(None, description="A certificate of its with which the operator proves itself.")
    dask_key_file: Path | None = Field(None, description="The key of that certificate.")
    dask_scheduler: Annotated[str, AfterValidator(_as_dask_scheduler)] | None = Field(
        None, description="Address of a dask scheduler to fit on, such as tls://dask:8786; absent, in those processes."
    )
    learning_share_percent: int = Field(
        50,
        ge=1,
        le=100,
        description="How much of a worker's time learning may take, in percent; forecasts take theirs.",
    )

    leader_elect: bool = Field(
        default=True, description="Whether replicas elect one that decides, by a Lease; without it, run one replica."
    )
    # Renewal, deadline and duration are checked together below.
    leader_elect_retry_period: Duration = Field("2s", description="Time between two renewals of the Lease.")
    leader_elect_renew_deadline: Duration = Field(
        "10s", description="Time without a renewal after which a leader begins no write any more."
    )
    leader_elect_lease_duration: Annotated[Duration, AfterValidator(_as_lease_duration)] = Field(
        "15s", description="Time without a renewal after which another replica may lead, in whole seconds, at most 60s."
    )
    leader_elect_resource_name: str = Field("cronhpa", description="Name of the Lease.")
    leader_elect_resource_namespace: str = Field(
        "",
        description="Namespace of the Lease. Empty: that of a kubeconfig or context named, else the pod's, else the"
        " default kubeconfig's.",
    )
    leader_elect_identity: Annotated[str, AfterValidator(_as_identity)] = Field(
        "",
        pattern=r"^[A-Za-z0-9._:-]*$",
        max_length=512,
        description=(
            "This replica's name in the Lease, which no other process has. Empty: host name and a random part. With the"
            " pod's uid in it, a restarted container leads again at once."
        ),
    )

    shards: Annotated[int, AfterValidator(_as_shards)] = Field(
        1,
        ge=1,
        le=64,
        description=(
            "Into how many shards the namespaces are divided, each decided by the replica that holds its Lease; 1: one"
            " replica decides for all. 16 serve up to 16 replicas; all replicas state the same."
        ),
    )
    shard_selector: bool = Field(
        default=False,
        description=(
            "Whether shards are ranges that an API server with the feature gate ShardedListAndWatch leaves out by"
            " itself; namespaces whose names differ in their last characters alone then share a shard."
        ),
    )

    @property
    def listen_address(self) -> str:
        # Of a cluster without IPv4 the kubelet and Prometheus come by IPv6.
        return self.listen_host or ("::" if _is_in_container() else "127.0.0.1")

    @property
    def store_address(self) -> StoreAddress:
        file = self.store_password_file
        return store_address(self.store, None if file is None else str(file))

    @property
    def lease_timing(self) -> LeaseTiming:
        return LeaseTiming(
            lease=parse_duration(self.leader_elect_lease_duration) / SECOND,
            renew_deadline=parse_duration(self.leader_elect_renew_deadline) / SECOND,
            retry=parse_duration(self.leader_elect_retry_period) / SECOND,
        )

    def lease_name(self, namespace: str) -> LeaseName | None:
        """The Lease to elect by, in `namespace` unless a setting names another one; None without an election."""
        if not self.leader_elect:
            return None
        return LeaseName(self.leader_elect_resource_namespace or namespace, self.leader_elect_resource_name)

    @property
    def lease_identity(self) -> str:
        return self.leader_elect_identity or _IDENTITY

    def placeholder_settings(self, namespace: str) -> PlaceholderSettings:
        """namespace: of Deployments, unless a setting names another one."""
        return PlaceholderSettings(
            self.placeholders,
            self.placeholder_namespace or namespace,
            self.placeholder_priority_class,
            self.placeholder_image,
            self.placeholder_max,
            self.placeholder_owner,
            self.placeholder_buffer_owner,
            self._usual_placeholders,
        )

    @property
    def _usual_placeholders(self) -> Placeholders | None:
        most = self.placeholder_max_per_object
        return Placeholders(most, parse_duration(self.placeholder_node_startup)) if most else None

    @property
    def dask(self) -> DaskCluster | None:
        if self.dask_scheduler is None:
            return None
        files = (self.dask_ca_file, self.dask_cert_file, self.dask_key_file)
        return DaskCluster(self.dask_scheduler, *(None if file is None else str(file) for file in files))

    @property
    def namespace_names(self) -> tuple[str, ...]:
        return _names(self.namespaces)

    @property
    def page_proxy_certificate_names(self) -> frozenset[str]:
        return frozenset(_names(self.page_proxy_names))

    @property
    def metrics_namespace_names(self) -> tuple[str, ...]:
        return _names(self.metrics_namespaces)


def unknown_variables(environment: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with each variable that looks like a setting and is none, in words."""
    known = [variable_of(name) for name in Settings.model_fields]
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name in known or name.startswith(_OF_TESTS):
            continue
        # Kubernetes describes a Service named cronhpa in the variables of each pod of its namespace.
        if _OF_SERVICE.search(name) or value.startswith(("tcp://", "udp://", "sctp://")):
            continue
        meant = nearest(name, known)
        yield f"{name}: there is no such setting" + (
            f": did you mean {meant}?" if meant else ": see cronhpa run --help"
        )


def _is_in_container() -> bool:
    marks = ("/.dockerenv", "/run/.containerenv")
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(Path(mark).exists() for mark in marks)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
