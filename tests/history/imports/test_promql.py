"""A tenant's text never changes the selectors of a query: it is a name, or there is no query."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cronhpa.core.model.spec import TargetRef
from cronhpa.history.database.series import Series
from cronhpa.history.imports.prometheus import Prometheus, PrometheusError
from cronhpa.history.imports.promql import Name, Names, QueryError, QueryTemplate, Subdomain
from history.strict_promql import Query, parse

# The review's attack: a name that ends the selector of its own namespace and asks for another one's.
ATTACK = 'x"}[2m])) or sum(rate(container_cpu_usage_seconds_total{namespace="victim", pod=~".*'
SAFE = {"namespace": "shop", "name": "web", "kind": "Deployment", "target": "web-server", "metric": "cpu"}
EVERYWHERE = (
    'sum(rate(load{a="$namespace", b=~"$namespace/.*", c!="$name", d=~"$name", e="${kind}s", f!~"x|$kind", '
    'g="$target", h=~"$target-.+", i="$metric", j=~"$metric"}[2m]))'
)

# Texts that are mostly made of what means something in PromQL, in a regular expression or in a template.
hostile = st.lists(
    st.sampled_from(
        [ATTACK, '"', "'", "`", "\\", "\n", "}", "{", ")", " or ", ",", "=", "=~", "#", "$", "$target", "$$", "|", ".*",
         ".+", "(?i)", "[^a]", "^", "$", "?", "*", "+", "\\x22", "\x00", "\u2028", "\u017f", "\u212a", "a", "web",
         "-", ".", "0"]
    )
    | st.text(max_size=3),
    max_size=6,
).map("".join)  # fmt: skip
names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)


def asked(template, **stated):
    """The query for an object that states these."""
    given_ = SAFE | stated
    series = Series(given_["namespace"], given_["name"], given_["metric"])
    source = Prometheus("http://nobody", {given_["metric"]: template} if template else None)
    return source.query_for(series, TargetRef("apps/v1", given_["kind"], given_["target"]))


@pytest.mark.parametrize("metric", ["cpu", "memory"])
@pytest.mark.parametrize("field", ["namespace", "name", "kind", "target"])
def test_a_name_that_ends_the_quotes_is_refused_with_what_is_accepted(field, metric):
    with pytest.raises(PrometheusError, match=r"that a query may hold: .* is accepted"):
        asked(None, metric=metric, **{field: ATTACK})


@given(st.sampled_from(sorted(SAFE)), hostile)
def test_whatever_a_tenant_writes_is_refused_or_leaves_the_selectors_as_they_are(field, text):
    safe = parse(asked(EVERYWHERE))
    try:
        query = asked(EVERYWHERE, **{field: text})
    except PrometheusError:
        return

    parsed_query = parse(query)
    assert (safe.functions, safe.metric, safe.span) == (parsed_query.functions, parsed_query.metric, parsed_query.span)
    assert [matcher[:2] for matcher in safe.matchers] == [matcher[:2] for matcher in parsed_query.matchers]
    # Texts that are not of the field that was written are those of before.
    mine = {"namespace": "ab", "name": "cd", "kind": "ef", "target": "gh", "metric": "ij"}[field]
    assert [matcher for matcher in safe.matchers if matcher[0] not in mine] == [
        matcher for matcher in parsed_query.matchers if matcher[0] not in mine
    ]


@given(hostile)
def test_the_query_of_an_attackers_target_is_that_of_its_name(text):
    try:
        parsed_query = parse(asked(None, target=text))
    except PrometheusError:
        return
    assert (
        Query(
            ("sum", "rate"),
            "container_cpu_usage_seconds_total",
            (
                ("namespace", "=", "shop"),
                ("pod", "=~", text.replace(".", "[.]") + "-.+"),
                ("container", "!=", ""),
                ("container", "!=", "POD"),
            ),
            "[2m]",
        )
        == parsed_query
    )


@given(names, names)
def test_behind_a_regex_matcher_a_name_matches_itself_alone(name, other):
    """`web.v2` is a legal name, and a dot matches any character: `webxv2` is somebody else's."""
    assume(name != other)
    matchers = {matcher[0]: matcher[2] for matcher in parse(asked(EVERYWHERE, target=name)).matchers}

    assert re.fullmatch(matchers["h"], f"{name}-abc12")
    assert not re.fullmatch(matchers["h"].removesuffix("-.+"), other)
    assert name == matchers["g"]


def test_a_dot_of_a_name_is_a_dot_in_quotes_of_every_kind():
    template = "a{b=~\"$target\", c=~'$target', d=~`$target`, e=\"$target\", f='$target', g=`$target`}"

    assert (
        'a{b=~"web[.]v2", c=~\'web[.]v2\', d=~`web[.]v2`, e="web.v2", f=\'web.v2\', g=`web.v2`}'
        == asked(template, target="web.v2")
    )  # fmt: skip


def test_quotes_in_comments_and_in_other_quotes_are_no_quotes():
    template = 'sum(# don\'t "\nload{a=\'"\', b!=`\'`, c=~ # it\'s\n "$target", price="$$5"})'

    assert 'sum(# don\'t "\nload{a=\'"\', b!=`\'`, c=~ # it\'s\n "web-server", price="$5"})' == asked(template)


@pytest.mark.parametrize(
    "template",
    [
        "sum($metric{a='b'})",
        "load{a='b'} > $target",
        "load{$name='b'}",
        'load{"$name"="b"}',
        "load == '$name'",
        'label_replace(load, "a", "$target", "b", "c")',
        "load{a='b'} # $name",
        'load{a="$name}',
        'load{a="\\$name"}',
        'load{a=~"\\\\${name}x"}',
    ],
)
def test_a_placeholder_elsewhere_than_in_a_matchers_quotes_is_refused(template):
    with pytest.raises(QueryError, match=r"stands outside the quotes of a label matcher|a backslash stands before"):
        QueryTemplate(template)


@pytest.mark.parametrize("template", ['load{a="$cluster"}', 'load{a="$"}', 'load{a="$1"}', 'load{a="${name"}'])
def test_an_unknown_placeholder_is_refused_with_the_known_ones(template):
    with pytest.raises(QueryError, match=r"\$namespace, \$name, \$kind, \$target, \$metric are known, and \$\$ for"):
        QueryTemplate(template)


@given(hostile | st.text())
def test_a_template_without_a_placeholder_is_the_query_itself(text):
    plain = text.replace("$", "")

    assert plain == QueryTemplate(plain).filled(Names.of(**SAFE))


@given(hostile)
def test_a_name_holds_only_harmless_characters(text):
    """No name has a quote, a line end, a backslash, a dollar sign or a repetition of regular expressions."""
    try:
        name = Name(text)
    except QueryError:
        return
    assert set(name.text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:/")


def test_only_names_fill_a_template():
    with pytest.raises(TypeError, match="target is a str, and no Name"):
        Names(*(Subdomain("web"),) * 3, target="web", metric=Subdomain("web"))


@pytest.mark.parametrize("text", ["", "a" * 254, "web\n", "-web", "web-", "Web", "wéb", "web_1", "web:1"])
def test_a_text_that_is_no_object_name_is_refused_in_a_query(text):
    with pytest.raises(QueryError, match="is not an object's name that a query may hold"):
        Subdomain(text)
