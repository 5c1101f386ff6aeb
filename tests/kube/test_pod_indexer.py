"""An index of pods that answers label selectors as a scan of all pods would."""

from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.situations import NOW, pod
from cronhpa.core.metrics.observe import start_up
from cronhpa.core.model.instant import HOUR, MINUTE, SECOND
from cronhpa.kube.label_selector import Requirement, Selector, parse_selector
from cronhpa.kube.pod_indexer import PodIndexer

SHOP = {"app": "shop", "tier": "web"}

keys, words = st.sampled_from(["app", "tier", "x"]), st.sampled_from(["a", "b", "c"])
labels = st.dictionaries(keys, words)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["in", "notin"]), st.lists(words, min_size=1, max_size=2).map(tuple)),
    st.builds(Requirement, keys, st.sampled_from(["exists", "absent"])),
)
selectors = st.builds(Selector, st.lists(requirements, max_size=3).map(tuple))
changes = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "drop"]), st.sampled_from(["prod", "test"]), st.integers(0, 5), labels
    ),
    max_size=30,
)


@given(changes, st.lists(selectors, min_size=1, max_size=5))
def test_the_index_answers_as_a_scan_of_all_pods_does(changes, questions):
    index, pods_by_key = PodIndexer(), {}
    for verb, namespace, number, of in changes:
        for selector in questions:  # what is kept of an answer must not outlive a change
            index.matching(namespace, selector)
        name = f"pod-{number}"
        if verb == "put":
            index.put(namespace, of, pod(name))
            pods_by_key[namespace, name] = of
        else:
            index.drop(namespace, name)
            pods_by_key.pop((namespace, name), None)

    assert set(pods_by_key) == index.names()
    assert len(pods_by_key) == index.count()
    for selector in questions:
        for namespace in ("prod", "test", "dev"):
            naive = {name for (home, name), of in pods_by_key.items() if home == namespace and selector.matches(of)}
            match = index.matching(namespace, selector)
            names = [listed_pod.name for listed_pod in match.pods]
            assert naive == set(names)
            assert len(naive) == len(names)
            labels = [pods_by_key[namespace, name] for name in naive]
            assert all(of in labels for of in match.labels)
            assert all(of in match.labels for of in labels)
            assert len({*map(id, match.labels)}) == len(match.labels)


def test_pods_of_one_template_share_their_labels_and_containers():
    """100,000 pods of 10,000 templates: a kilobyte each is 100 MB."""
    index = PodIndexer()

    def traced(pods):
        tracemalloc.start()
        for number in range(pods):
            of = {key: "".join(value) for key, value in {"app": ["shop", "-1"], "team": ["pay", "ments"]}.items()}
            one = pod(f"a-{number}")
            containers = tuple(replace(container, requests=dict(container.requests)) for container in one.containers)
            index.put("prod", of, replace(one, containers=containers))
        peak = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return peak / pods

    traced(100)
    assert traced(2000) < 700


def test_the_index_gives_the_pod_as_it_was_put_last():
    index = PodIndexer()
    index.put("prod", SHOP, pod("a", phase="Pending"))
    index.put("prod", dict(SHOP), pod("a", phase="Running"))

    assert ("Running",) == tuple(
        listed_pod.phase for listed_pod in index.matching("prod", parse_selector("app=shop")).pods
    )


def test_the_start_up_time_of_a_pod_ends_at_its_first_readiness():
    """Ready 20 s after its creation; not Ready in the 30th minute, and not in the 40th."""
    index, began = PodIndexer(), NOW - HOUR
    lives = [("False", 0), ("True", 20), ("False", 1800), ("True", 1860), ("False", 2400), ("True", 2460)]
    for ready, since in lives:
        index.put("prod", SHOP, pod("a", ready=ready, started=began, ready_since=began + since * SECOND))

    (listed_pod,) = index.matching("prod", parse_selector("app=shop")).pods
    assert began + 2460 * SECOND == listed_pod.ready_since
    assert 25 * SECOND == start_up([listed_pod])


def test_another_pod_of_the_same_name_has_its_own_start():
    index, began = PodIndexer(), NOW - HOUR
    for start, since in ((began, began + 20 * SECOND), (began + MINUTE, began + MINUTE + 40 * SECOND)):
        index.put("prod", SHOP, pod("shop-0", started=start, ready_since=since))

    assert 45 * SECOND == start_up(index.matching("prod", parse_selector("app=shop")).pods)


def test_pods_of_other_namespaces_never_match():
    index = PodIndexer()
    index.put("prod", SHOP, pod("a"))

    assert () == index.matching("test", parse_selector("app=shop")).pods


def test_a_change_is_noticed_by_a_selector_of_the_oldest_key_that_is_indexed_and_of_a_new_one():
    """A hundred keys are indexed, each for one of a hundred selectors."""
    index, of = PodIndexer(), {f"key-{number}": "v" for number in range(101)}
    index.put("prod", of, pod("a"))
    for number in range(100):
        index.matching("prod", parse_selector(f"key-{number}=v"))
    selector = parse_selector("key-0=v,key-100=v")
    match = index.matching("prod", selector)

    index.put("prod", of, pod("b"))

    assert not match.is_current
    assert {"a", "b"} == {listed_pod.name for listed_pod in index.matching("prod", selector).pods}


def test_labels_that_no_selector_asks_for_take_no_room_in_the_index():
    """A hundred templates have five labels each; selectors name one of them."""

    def traced(keys):
        index = PodIndexer()
        tracemalloc.start()
        for template in range(100):
            of = {f"key-{number}": f"{template}" for number in range(keys)}
            for number in range(10):
                index.put("prod", dict(of), pod(f"shop-{template}-{number}"))
            index.matching("prod", parse_selector(f"key-0={template}"))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size / 1000

    # The texts of four labels more are a tenth of 400 B, as ten pods share them. Indexed, each would take 80 B a pod.
    assert traced(5) - traced(1) < 100
