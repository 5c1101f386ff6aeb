"""cronhpa.forecasting.dask: a cluster is reached by TLS alone, and answers bytes about those that were asked about."""

import subprocess
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest
from pydantic import ValidationError

from cronhpa.core.model.forecast import Forecast
from cronhpa.core.model.instant import DAY, parse_instant
from cronhpa.core.model.observation import Absent
from cronhpa.core.model.spec import ForecastSettings, MetricTarget, ResourceMetric, Spec, TargetRef
from cronhpa.forecasting import worker
from cronhpa.forecasting.messages import DaskCluster, FitResult, ForecastTarget, TrainingData
from cronhpa.forecasting.service import ForecastService, fit
from cronhpa.history.database.series import STEP, Series
from cronhpa.history.store import Store
from cronhpa.operator.settings import Settings

MIDNIGHT = parse_instant("2026-03-10T00:00:00Z")
WEB, OTHER = Series("shop", "web", "cpu"), Series("victim", "web", "cpu")
FILES = {"dask_ca_file": "ca.crt", "dask_cert_file": "tls.crt", "dask_key_file": "tls.key"}


def subject(series):
    metrics = (ResourceMetric("cpu", MetricTarget("AverageValue", average_value=1000)),)
    target = TargetRef("apps/v1", "Deployment", series.name)
    return ForecastTarget(series, Spec(target, 1, 99, metrics=metrics, forecast=ForecastSettings()))


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"dask_scheduler": "tcp://dask:8786"}, "only tls://HOST:PORT is accepted"),
        ({"dask_scheduler": "TLS://dask:8786"}, "only tls://HOST:PORT is accepted"),
        ({"dask_scheduler": "ucx://dask:8786"}, "only tls://HOST:PORT is accepted"),
        ({"dask_scheduler": "tcp://dask:8786"} | FILES, "only tls://HOST:PORT is accepted"),
        ({"dask_scheduler": "tls://dask:8786"}, "CRONHPA_DASK_CA_FILE, CRONHPA_DASK_CERT_FILE, CRONHPA_DASK_KEY_FILE"),
        ({"dask_scheduler": "inproc://x", "dask_insecure": True}, "tls://HOST:PORT or tcp://HOST:PORT is accepted"),
    ],
)
def test_a_scheduler_of_which_nobody_proves_who_he_is_is_refused(stated, said):
    with pytest.raises(ValidationError, match=said):
        Settings(**stated)


def test_a_scheduler_is_reached_with_certificates_or_at_a_risk_that_was_named():
    assert (
        DaskCluster("tls://dask:8786", "ca.crt", "tls.crt", "tls.key")
        == Settings(dask_scheduler="tls://dask:8786", **FILES).dask
    )
    assert DaskCluster("tcp://dask:8786") == Settings(dask_scheduler="tcp://dask:8786", dask_insecure=True).dask
    assert Settings().dask is None


# --- answers -----------------------------------------------------------------------------------------------------


class Hostile:
    """An executor that answers what it was told to, whatever it is asked."""

    def __init__(self, answer):
        self.answer, self.submitted = answer, []

    def submit(self, task, *arguments):
        self.submitted.append((task, arguments))
        done = Future()
        done.set_result(self.answer)
        return done


class Code(bytes):
    """Bytes that bring their own methods."""


def past(series):
    return TrainingData(subject(series), MIDNIGHT, b"")


def packed(*series):
    return msgspec.msgpack.encode(FitResult([], [(member, Absent("Learning", "x")) for member in series]))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "answered NoneType: at most"),
        (FitResult([], []), "answered FitResult: at most"),
        (bytearray(b"x"), "answered bytearray: at most"),
        (Code(b"x"), "answered Code of 1: at most"),
        (bytes(2**26 + 1), "answered bytes of 67108865: at most 67108864 bytes are accepted"),
        (b"", "truncated"),
        (b"\xc1", "malformed"),
        (b"\x91" * 100_000, r"recursion|Expected|cannot"),
        (packed(WEB, OTHER), "answered about victim/web cpu, which it was not asked about"),
    ],
    ids=["none", "object", "bytearray", "subclass", "long", "empty", "nonsense", "deep", "another's"],
)
def test_what_is_no_answer_to_the_question_is_refused(answer, said):
    with pytest.raises((ValueError, RecursionError), match=said):
        worker.fit_on(Hostile(answer), [past(WEB)], MIDNIGHT)


def test_nothing_but_bytes_is_sent_and_nothing_but_bytes_is_read():
    executor = Hostile(packed(WEB))

    answers = worker.fit_on(executor, [past(WEB)], MIDNIGHT)

    assert FitResult([], [(WEB, Absent("Learning", "x"))]) == answers
    ((task, (payload,)),) = executor.submitted
    assert bytes is type(payload)
    # What a worker of the cluster runs: two days are too little to learn from.
    told = msgspec.msgpack.decode(task(payload), type=FitResult)
    assert [WEB] == [series for series, _ in told.absent]


# --- TLS ---------------------------------------------------------------------------------------------------------


def certificates(folder: Path, name: str) -> dict[str, str]:
    """An authority of its own, and a certificate of it for both sides."""
    made = {kind: str(folder / f"{name}.{kind}") for kind in ("ca", "ca_key", "cert", "key", "request", "names")}
    Path(made["names"]).write_text("subjectAltName=IP:127.0.0.1\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"]
    for command in (
        ["req", "-x509", *new, "-days", "2", "-keyout", made["ca_key"], "-out", made["ca"]],
        ["req", *new, "-keyout", made["key"], "-out", made["request"]],
        ["x509", "-req", "-in", made["request"], "-CA", made["ca"], "-CAkey", made["ca_key"], "-CAcreateserial",
         "-days", "2", "-extfile", made["names"], "-out", made["cert"]],
    ):  # fmt: skip
        subprocess.run(["openssl", *command], check=True, capture_output=True)
    return made


def remember(path):
    """Three days of a jump at 06:00."""
    store = Store(path)
    begin = MIDNIGHT - 3 * DAY
    store.loads.backfill(WEB, [(at, 1.0 if at % DAY < DAY // 4 else 10.0) for at in range(begin, MIDNIGHT, STEP)])
    store.close()


@pytest.mark.long
async def test_a_cluster_is_reached_with_certificates_of_its_authority_and_with_no_others():
    from distributed import LocalCluster
    from distributed.security import Security

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = certificates(Path(folder), "ours"), certificates(Path(folder), "theirs")
        security = Security(
            require_encryption=True, tls_ca_file=ours["ca"],
            **{f"tls_{role}_cert": ours["cert"] for role in ("scheduler", "worker", "client")},
            **{f"tls_{role}_key": ours["key"] for role in ("scheduler", "worker", "client")},
        )  # fmt: skip
        with LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tls",
            security=security, host="127.0.0.1",
        ) as dask:  # fmt: skip
            assert dask.scheduler_address.startswith("tls://")
            answers = {}
            for name, shown in (("ours", ours), ("theirs", theirs)):
                path = Path(folder) / f"{name}.db"
                remember(path)
                cluster = DaskCluster(dask.scheduler_address, shown["ca"], shown["cert"], shown["key"])
                forecaster = ForecastService(path, time.monotonic, cluster=cluster, fit_task=fit)
                await forecaster.fit([subject(WEB)], MIDNIGHT)
                answers[name] = (forecaster.latest(WEB), forecaster.problems)
                await forecaster.close()

    assert () == answers["ours"][1]
    assert isinstance(answers["ours"][0], Forecast) or answers["ours"][0].reason == "NothingToGain"
    assert "certificate" in answers["theirs"][1][0].lower() or "timed out" in answers["theirs"][1][0].lower()
