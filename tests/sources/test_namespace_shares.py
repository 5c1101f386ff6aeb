"""cronhpa.sources.namespace_shares: threads and CPU time, by namespace, by a clock that the tests set."""

import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cronhpa.sources.namespace_shares import (
    CpuBudget,
    FairQueue,
    NamespaceShare,
    Reading,
    TooCostlyError,
    scrape_budget,
)
from sources.virtual_periods import Periods


def is_spent(budget):
    try:
        budget.refuse_more()
    except TooCostlyError:
        return True
    return False


def test_a_budget_is_refilled_by_its_share_of_the_time_that_passes():
    """0.5 s at first. After 0.7 s of work it is 0.2 s short, which a share of a tenth makes up for in 2 s."""
    clock = Periods()
    budget = CpuBudget(0.1, 0.5, "too much", clock)

    budget.spend(0.4)
    before = is_spent(budget)
    budget.spend(0.3)
    after = is_spent(budget)
    clock.now = 2.1
    budget.spend(0.0)

    assert [False, True, False] == [before, after, is_spent(budget)]


def test_a_budget_never_holds_more_than_its_burst():
    clock = Periods()
    budget = CpuBudget(0.1, 0.5, "too much", clock)
    clock.now = 1000.0

    budget.spend(0.6)

    assert is_spent(budget)


def test_a_scrape_has_a_fifth_of_its_period_and_a_millisecond_for_each_pod():
    """30 pods each second: 200 + 30 ms. A day's period counts as 15 s: 3,000 + 30 ms."""
    clock = Periods()
    second, day = scrape_budget(1.0, 30, clock), scrape_budget(86_400.0, 30, clock)

    second.spend(0.229)
    day.spend(3.029)
    left = [is_spent(second), is_spent(day)]
    second.spend(0.002)
    day.spend(0.002)

    assert [False, False] == left
    assert [True, True] == [is_spent(second), is_spent(day)]


def reading(share, clock, cpu, deadline=10.0):
    return Reading(share, scrape_budget(1.0, 0, clock), deadline, clock, cpu)


def test_a_namespace_that_used_its_cpu_time_up_is_refused_and_the_next_one_is_not():
    """0.3 of a CPU for 15 s are 4.5 s: 22 scrapes that use 0.2 s each may begin a 23rd, which is the last one."""
    clock, cpu = Periods(), Periods()
    hostile, honest = NamespaceShare(clock), NamespaceShare(clock)
    for _ in range(23):
        with reading(hostile, clock, cpu):
            cpu.now += 0.2

    with reading(honest, clock, cpu) as work:
        work.check()
    words = "the pages of its namespace's pods take more than 30% of a CPU"
    with pytest.raises(TooCostlyError, match=words), reading(hostile, clock, cpu):
        pass


def test_work_is_charged_though_its_thread_does_not_get_the_turn_back():
    """What a read of the network used while others had the turn."""
    clock, cpu = Periods(), Periods()
    share, budget = NamespaceShare(clock), scrape_budget(1.0, 0, clock)
    with suppress(TimeoutError), Reading(share, budget, 1.0, clock, cpu) as work, work.waits():
        cpu.now, clock.now = 0.3, 2.0

    assert is_spent(budget)
    assert not share.turn.locked()


def test_after_its_deadline_nothing_is_read():
    clock, cpu = Periods(), Periods()
    share = NamespaceShare(clock)
    clock.now = 1.0
    with pytest.raises(TimeoutError), reading(share, clock, cpu, deadline=1.0):
        pass

    assert not share.turn.locked()


def test_of_a_namespace_one_thread_works_while_the_others_wait_for_the_network():
    clock = Periods()
    share = NamespaceShare(clock)
    came, seen = threading.Event(), []

    def work_too():
        with reading(share, clock, Periods()):
            seen.append("the other")
        came.set()

    with reading(share, clock, Periods()) as work:
        other = threading.Thread(target=work_too)
        other.start()
        seen.append("this one")
        with work.waits():
            came.wait()
        seen.append("this one again")
    other.join()

    assert ["this one", "the other", "this one again"] == seen


def test_a_namespace_whose_jobs_hang_leaves_half_of_the_threads():
    """Of 4 threads 2 hang; a third job of the namespace waits behind the one of another namespace, which came later."""
    queue = FairQueue(4)
    queue.put("hostile", ["hangs"] * 10)
    taken = [queue.get(), queue.get()]
    queue.put("honest", ["answers"])

    taken.append(queue.get())

    assert [("hostile", "hangs")] * 2 + [("honest", "answers")] == taken


def test_namespaces_take_turns():
    queue = FairQueue(100)
    queue.put("a", [1, 2, 3])
    queue.put("b", [1, 2])

    assert [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)] == [queue.get() for _ in range(5)]


@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(1, 8))
def test_every_job_is_run_by_threads_that_end_each_before_the_next(names, count):
    queue = FairQueue(count)
    for number, name in enumerate(names):
        queue.put(name, [number])

    ran = []
    while queue.unfinished:
        name, number = queue.get()
        ran.append(number)
        queue.done(name)

    assert sorted(ran) == list(range(len(names)))
