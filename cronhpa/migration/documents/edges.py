"""Windows of KEDA, Crane and Kapacity: they have start and end, too, but are active while the next edge is an end."""

from __future__ import annotations

from cronhpa.core.schedules import cron
from cronhpa.migration.documents import job_windows
from cronhpa.migration.documents.clock_changes import remark_clock_changes
from cronhpa.migration.documents.context import ConversionContext
from cronhpa.migration.documents.document import FieldReader, Json
from cronhpa.migration.documents.manifest import zone_problem


def window(
    at: FieldReader,
    edges: tuple[str, str],
    zone: str,
    source: str,
    context: ConversionContext,
    *,
    tie_is_active: bool = True,
) -> Json:
    """
    start, end and timeZone of a schedule, with a remark if the source would be active at other times.

    at: the mapping with start and end. tie_is_active: whether the source is active before a start and an end at the
    same time, as KEDA is.
    Raises Unconvertible if a text cannot be read.
    """
    problem = zone_problem(zone)
    if problem:
        raise at.unconvertible("timezone", problem, "name the zone that is meant")
    start, end = (job_windows.five_fields(text) for text in edges)
    for key, text in (("start", start), ("end", end)):
        problem = cron.problem(text)
        if problem:
            raise at.unconvertible(key, problem, "write the window by hand")
        if job_windows.names_weekday_7(text):
            at.remark(key, f'found "{text}"', f"7 is Sunday here; {source} cannot read it")
    if start == end:
        raise at.unconvertible("end", f'start and end are both "{start}"', "a window needs an end of its own")
    apart = job_windows.difference(start, end, context.wall(zone), tie_is_active=tie_is_active)
    if apart is not None:
        first, second = (f"{moment:%a %Y-%m-%d %H:%M}" for moment in (apart.first, apart.second))
        there, following = ("inactive", "a start") if apart.is_open else ("active", "an end")
        here, last = ("open", "a start") if apart.is_open else ("closed", "an end")
        at.remark(
            "start" if apart.is_open else "end",
            f"between {first} and {second} {source} is {there}, because the next edge is {following}",
            f"here the window is {here}, because the last edge was {last}: give start and end the days that are meant",
        )
    remark_clock_changes(at, "start", (start, end), zone, context.wall(zone))
    return {"start": start, "end": end, "timeZone": zone}
