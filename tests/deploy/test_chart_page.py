"""The page in the chart: at loopback unless it is protected, and who may reach it otherwise."""

import pytest

from cronhpa.operator.settings import Settings
from deploy.test_chart import container, environment, named, of_kind, only, pod, render
from testbed.control_plane import ControlPlaneError

pytestmark = pytest.mark.cluster

INGRESS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}]


def services(objects):
    return {manifest["metadata"]["name"] for manifest in of_kind(objects, "Service")}


def settings_of(objects):
    """What the operator makes of its environment; files need not be there."""
    stated = {name.removeprefix("CRONHPA_").lower(): value for name, value in environment(objects).items()}
    return Settings(**{name: value for name, value in stated.items() if name.startswith("page_")})


def test_by_default_the_page_is_at_loopback_and_asks_for_tokens():
    objects = render()

    assert ("127.0.0.1", 8083, "token") == (
        settings_of(objects).page_host, settings_of(objects).page_port, settings_of(objects).page_authentication,
    )  # fmt: skip
    assert {"cronhpa"} == services(objects)
    assert "page" not in {port["name"] for port in container(objects)["ports"]}


@pytest.mark.parametrize(("values", "kind"), [({}, "ClusterRole"), ({"namespaces": ["shop", "search"]}, "Role")])
def test_the_account_of_the_page_may_get_cronhpas_and_nothing_else_and_no_pod_runs_as_it(values, kind):
    objects = render(**values)
    subject = {"kind": "ServiceAccount", "name": "cronhpa-page", "namespace": "cronhpa-system"}
    bindings = [each for each in of_kind(objects, f"{kind}Binding") if subject in each["subjects"]]
    roles = {binding["roleRef"]["name"] for binding in bindings}

    assert len(values.get("namespaces", [""])) == len(bindings)
    assert [{"apiGroups": ["cronhpa.io"], "resources": ["cronhpas"], "verbs": ["get"]}] == [
        rule for role in of_kind(objects, kind) if role["metadata"]["name"] in roles for rule in role["rules"]
    ][:1]
    assert named(objects, "ServiceAccount", "cronhpa-page")["automountServiceAccountToken"] is False
    assert "cronhpa" == pod(objects)["serviceAccountName"]


@pytest.mark.parametrize(
    "values", [{"page": {"viewer": False}}, {"page": {"enabled": False}}, {"rbac": {"create": False}}]
)
def test_the_account_of_the_page_can_be_left_out(values):
    assert "cronhpa-page" not in {each["metadata"]["name"] for each in of_kind(render(**values), "ServiceAccount")}


def test_with_a_certificate_it_is_served_to_those_who_are_named():
    objects = render(page={"tlsSecret": "page-tls", "from": INGRESS})

    assert "::" == settings_of(objects).page_host
    assert {"name": "page", "containerPort": 8083} in container(objects)["ports"]
    (port,) = named(objects, "Service", "cronhpa-page")["spec"]["ports"]
    assert ("https", 443, "page") == (port["name"], port["port"], port["targetPort"])
    assert "page-tls" in {volume.get("secret", {}).get("secretName") for volume in pod(objects)["volumes"]}
    rules = only(objects, "NetworkPolicy")["spec"]["ingress"]
    assert [INGRESS] == [rule["from"] for rule in rules if rule["ports"][0]["port"] == "page"]


def test_where_nobody_is_named_nobody_reaches_it():
    rules = only(render(page={"tlsSecret": "page-tls"}), "NetworkPolicy")["spec"]["ingress"]

    assert ["http"] == [port["port"] for rule in rules for port in rule["ports"]]


def test_a_proxy_proves_itself_by_a_secret_or_a_certificate():
    by_secret = render(page={"tlsSecret": "t", "authentication": "proxy", "proxy": {"secret": {"name": "p"}}})
    by_certificate = render(page={"tlsSecret": "t", "authentication": "proxy"}, advanced={"proxyClientCa": True})

    assert "/var/run/secrets/page-proxy/secret" == str(settings_of(by_secret).page_proxy_secret_file)
    assert "/var/run/secrets/page/ca.crt" == str(settings_of(by_certificate).page_client_ca_file)
    with pytest.raises(ControlPlaneError, match="proxy's headers"):
        render(page={"authentication": "proxy"})


def test_a_proxy_has_the_names_and_the_separator_that_are_stated():
    """A common name may have blanks; without names any certificate of the authority is the proxy's."""
    proxy = {"certificateNames": ["page proxy", "proxy.ingress.svc"], "groupsSeparator": ""}
    stated = render(
        page={"tlsSecret": "t", "authentication": "proxy", "proxy": proxy}, advanced={"proxyClientCa": True}
    )
    unnamed = render(page={"tlsSecret": "t", "authentication": "proxy"}, advanced={"proxyClientCa": True})

    assert ({"page proxy", "proxy.ingress.svc"}, "") == (
        settings_of(stated).page_proxy_certificate_names, settings_of(stated).page_groups_separator,
    )  # fmt: skip
    assert (set(), ",") == (
        settings_of(unnamed).page_proxy_certificate_names, settings_of(unnamed).page_groups_separator,
    )  # fmt: skip
    with pytest.raises(ControlPlaneError, match=r"set advanced\.proxyClientCa, too"):
        render(page={"tlsSecret": "t", "authentication": "proxy",
                     "proxy": {"secret": {"name": "p"}, "certificateNames": ["page-proxy"]}})  # fmt: skip


def test_without_authentication_there_is_no_page_in_a_cluster():
    with pytest.raises(ControlPlaneError, match="authentication"):
        render(page={"authentication": "none"})
