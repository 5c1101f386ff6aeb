"""cronhpa.sources.url_template: valid URLs; names of objects change neither host nor path structure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.history.imports.promql import Names, QueryError
from cronhpa.sources.url_template import UrlTemplate

SHOP = {"namespace": "prod", "name": "shop", "kind": "Deployment", "target": "web.1", "metric": "queue:length/s"}


def filled(text, **names):
    return str(UrlTemplate(text).filled(Names.of(**SHOP | names)))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://queues", "http://queues/"),
        ("https://queues.prod:8443/a/b.json?x=1&y=%20", "https://queues.prod:8443/a/b.json?x=1&y=%20"),
        ("http://[fd00::1]:81/a", "http://[fd00::1]:81/a"),
        ("http://h/$namespace/$target?kind=${kind}&of=$name", "http://h/prod/web.1?kind=Deployment&of=shop"),
        ("http://h?of=$name", "http://h/?of=shop"),
        # What a name of a metric may hold ends no segment and no parameter.
        ("http://h/$metric?m=$metric", "http://h/queue%3Alength%2Fs?m=queue%3Alength%2Fs"),
        ("http://h/a$$b", "http://h/a$b"),
    ],
)
def test_names_stand_behind_the_host_percent_encoded(text, url):
    assert url == filled(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("queues/a", "no http or https URL"),
        ("ftp://h/a", "no http or https URL"),
        ("file:///etc/passwd", "no http or https URL"),
        ("HTTP://h/a", "no http or https URL"),
        ("http:///a", "its host or its port"),
        ("http://h:x/a", "its host or its port"),
        ("http://h:/a", "its host or its port"),
        ("http://a b/a", "its host or its port"),
        ("http://h\\@evil/a", "a user or a password"),
        ("http://me:secret@h/a", "a user or a password"),
        ("http://$namespace.svc/a", "in its host"),
        ("http://h:$target/a", "in its host"),
        ("http://h${name}/a", "in its host"),
        ("http://h/$pod", "begins no known name"),
        ("http://h/a$", "begins no known name"),
        ("http://h/${pod}", "begins no known name"),
        ("http://h/{a}", "it is no path"),
        ("http://h/${}", "begins no known name"),
        ("http://h/a b", "it is no path"),
        ("http://h/a\\b", "it is no path"),
        ("http://h/a#b", "it is no path"),
        ("http://h/a\nb", "it is no path"),
        ("http://h/ü", "it is no path"),
    ],
)
def test_what_is_no_url_of_a_fixed_host_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        UrlTemplate(text)


def test_a_port_beyond_all_ports_is_refused():
    with pytest.raises(ValueError, match=r".+"):
        UrlTemplate("http://h:65536/a")


TEXTS = st.text(st.sampled_from("aZ09-._:/@#?%&= \\$'\"[]{}\n\x00ü"), max_size=20)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_no_text_of_an_object_leaves_its_segment_and_its_parameter(namespace, name, kind, target):
    try:
        names = Names.of(namespace=namespace, name=name, kind=kind, target=target, metric="load")
    except QueryError:
        return
    url = UrlTemplate("http://queues:81/$namespace/$kind/$target/?of=$name").filled(names)

    assert ("http", "queues", 81) == (url.scheme, url.host, url.port)
    assert ("/", namespace, kind, target, "") == url.parts
    assert [("of", name)] == list(url.query.items())
    assert not url.fragment


def test_dots_of_a_name_climb_nowhere():
    assert "http://h/a/b..c/d" == filled("http://h/a/$name/d", name="b..c")
