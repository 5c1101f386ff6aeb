"""cronhpa.migration.dialects.aliyun, cronhpa.migration.documents.jobs: points in time become windows."""

import pytest

from migration.reading import converted, only, remarks


def jobs(*lines, kind="Deployment", api_version="apps/v1", extra="", status=""):
    listed = "".join(f"\n  - {{{line}}}" for line in lines)
    ref = f"{{apiVersion: {api_version}, kind: {kind}, name: shop}}"
    return (
        "apiVersion: autoscaling.alibabacloud.com/v1beta1\nkind: CronHorizontalPodAutoscaler\n"
        f"metadata: {{name: shop, namespace: prod}}\nspec:\n  scaleTargetRef: {ref}{extra}\n  jobs:{listed}\n{status}\n"
    )


UP = "name: up, schedule: 0 0 8 * * *, targetSize: 30"
DOWN = "name: down, schedule: 0 0 20 * * *, targetSize: 1"
HPA = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop, namespace: prod, labels: {app: shop}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 4
  maxReplicas: 20
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"""


def test_a_job_holds_until_the_next_job():
    conversion = converted(jobs(UP, DOWN), zone="Europe/Berlin")

    spec = only(conversion)
    assert (1, 30, "Europe/Berlin") == (spec["minReplicas"], spec["maxReplicas"], spec["timeZone"])
    assert [
        {"name": "up", "start": "0 8 * * *", "end": "0 20 * * *", "replicas": 30},
        {"name": "down", "start": "0 20 * * *", "end": "0 8 * * *", "replicas": 1},
    ] == spec["schedules"]
    assert () == conversion.remarks


def test_a_job_whose_follower_depends_on_the_weekday_is_several_windows():
    schedules = converted("aliyun.yaml").manifests[1]["spec"]["schedules"]

    assert [
        ("morning", "0 8 * * 1,2,3,4,5", "0 18 * * 1,2,3,4,5", 20),
        ("evening", "0 18 * * 1,2,3,4,6", "0 8 * * 1,2,3,4,5", 5),
        ("evening-2", "0 18 * * 5", "0 10 * * 6", 5),
        ("saturday", "0 10 * * 6", "0 18 * * 6", 10),
    ] == [(schedule["name"], schedule["start"], schedule["end"], schedule["replicas"]) for schedule in schedules[:4]]
    assert {
        "name": "sale",
        "from": "2026-11-27T00:00",
        "to": "2026-11-27T08:00",
        "replicas": 60,
    } == schedules[4]


def test_jobs_on_an_hpa_move_its_bounds_and_take_its_metrics():
    """The size becomes minReplicas, and maxReplicas where that is less."""
    conversion = converted(
        jobs(UP, DOWN, kind="HorizontalPodAutoscaler", api_version="autoscaling/v1") + HPA, zone="UTC"
    )

    assert {"name": "shop", "namespace": "prod", "labels": {"app": "shop"}} == conversion.manifests[0]["metadata"]
    spec = only(conversion)
    assert ("web", 4, 20) == (spec["scaleTargetRef"]["name"], spec["minReplicas"], spec["maxReplicas"])
    assert [(30, 30), (1, None)] == [
        (schedule["minReplicas"], schedule.get("maxReplicas")) for schedule in spec["schedules"]
    ]
    assert "for good" in remarks(conversion)["spec.jobs[up].targetSize"].meaning
    assert "past jobs may have left them so" in remarks(conversion)["spec.scaleTargetRef"].meaning


def test_jobs_on_an_hpa_that_is_not_there_are_refused():
    conversion = converted(jobs(UP, DOWN, kind="HorizontalPodAutoscaler", api_version="autoscaling/v1"), zone="UTC")

    assert () == conversion.manifests
    assert "convert both together" in remarks(conversion)["spec.scaleTargetRef"].meaning


def test_the_zone_is_the_controllers_and_is_asked_for():
    conversion = converted(jobs(UP, DOWN))

    assert "Asia/Shanghai" == only(conversion)["timeZone"]
    assert "--time-zone" in remarks(conversion)["spec.jobs"].meaning


def test_what_has_run_once_or_is_past_is_left_out():
    once = "name: once, schedule: 0 0 12 * * *, targetSize: 9, runOnce: true"
    past = 'name: past, schedule: "@date 2026-09-01 00:00:00", targetSize: 9'
    status = "status: {conditions: [{name: once, state: Succeed}]}"

    conversion = converted(jobs(UP, DOWN, once, past, status=status), zone="UTC")

    assert ["up", "down"] == [schedule["name"] for schedule in only(conversion)["schedules"]]
    assert {"spec.jobs[2]", "spec.jobs[3].schedule"} == set(remarks(conversion))


def test_a_job_that_will_run_once_is_a_window_of_its_own():
    """It is 12:00 of 1 October: the next 11:30 is tomorrow's."""
    once = "name: once, schedule: 0 30 11 * * *, targetSize: 9, runOnce: true"

    schedules = only(converted(jobs(UP, DOWN, once), zone="UTC"))["schedules"]

    assert {"name": "once", "from": "2026-10-02T11:30", "to": "2026-10-02T20:00", "replicas": 9} == schedules[2]


def test_excluded_dates_and_seconds_are_named():
    extra = "\n  excludeDates: ['* * * 15 11 *']"

    conversion = converted(jobs("name: up, schedule: 30 0 8 * * *, targetSize: 3", DOWN, extra=extra), zone="UTC")

    assert {"spec.excludeDates[0]", "spec.jobs[0].schedule"} == set(remarks(conversion))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([UP], "a job is followed by no other"),
        ([UP, "name: often, schedule: '@every 5m', targetSize: 2"], "@every 5m"),
        ([UP, DOWN, "name: odd, schedule: 0 0 9 */2 * 1, targetSize: 2"], "a step of days beside a weekday"),
        ([UP, "name: also, schedule: 0 0 8 * * 1, targetSize: 2"], "two jobs run at"),
        (['name: one, schedule: "@date 2026-12-01 00:00:00", targetSize: 2'], "nothing follows one"),
        (['name: one, schedule: "@date 2026-13-01 00:00:00", targetSize: 2'], "@date 2026-13-01"),
        (["name: none, schedule: 0 0 8 * * *"], "there is no targetSize"),
    ],
)
def test_jobs_that_no_window_says_are_refused_whole(lines, words):
    """Without one job nobody knows when the others' counts end."""
    conversion = converted(jobs(*lines), zone="UTC")

    assert () == conversion.manifests
    assert any(words in remark.finding for remark in conversion.remarks)


def test_five_fields_have_seconds_too_and_no_weekday():
    """Found: it became minute 9 of every hour, January to May, without a word, as the controller reads it."""
    five = ["name: up, schedule: 0 9 * * 1-5, targetSize: 30", "name: down, schedule: 0 18 * * 1-5, targetSize: 1"]

    conversion = converted(jobs(*five), zone="UTC")

    assert "9 * * 1-5 *" == only(conversion)["schedules"][0]["start"]
    remark = remarks(conversion)["spec.jobs[0].schedule"]
    assert "reads the first as seconds and no weekday" in remark.finding
    assert 'if "0 9 * * 1-5" was meant as in crontab' in remark.meaning


def test_of_two_jobs_in_a_minute_the_later_second_lasts():
    """30 s apart: 30 replicas from 8:00:30 on, and 5 for half a minute, which no window is."""
    early = "name: early, schedule: 0 0 8 * * *, targetSize: 5"
    late = "name: late, schedule: 30 0 8 * * *, targetSize: 30"

    conversion = converted(jobs(early, late, DOWN), zone="UTC")

    assert [("late", "0 8 * * *", "0 20 * * *", 30), ("down", "0 20 * * *", "0 8 * * *", 1)] == [
        (schedule["name"], schedule["start"], schedule["end"], schedule["replicas"])
        for schedule in only(conversion)["schedules"]
    ]
    assert {"early is followed by another job in the same minute", "found second 30"} == {
        remark.finding for remark in conversion.remarks
    }


def test_a_weekday_off_is_left_out_of_the_weekdays():
    """No job on Fridays: the count of Thursday's last job stays until Saturday."""
    conversion = converted(jobs(UP, DOWN, extra="\n  excludeDates: ['* * * * * 5']"), zone="UTC")

    assert [
        ("up", "0 8 * * 0,1,2,3,4,6", "0 20 * * 0,1,2,3,4,6"),
        ("down", "0 20 * * 0,1,2,3,4,6", "0 8 * * 0,1,2,3,4,6"),
    ] == [(schedule["name"], schedule["start"], schedule["end"]) for schedule in only(conversion)["schedules"]]
    assert () == conversion.remarks


def test_a_date_off_keeps_what_the_job_before_it_set():
    """On 15 November no job runs: 1 from the 14th at 20:00 until the 16th at 8:00."""
    conversion = converted(jobs(UP, DOWN, extra="\n  excludeDates: ['* * * 15 11 *']"), zone="UTC")

    schedules = only(conversion)["schedules"]
    assert {"name": "down-2", "from": "2026-11-15T08:00", "to": "2026-11-16T08:00", "replicas": 1} == schedules[2]
    days = [{"from": f"{year}-11-15", "to": f"{year}-11-15"} for year in (2026, 2027)]
    assert [{"dates": days}, {"dates": days}] == [schedule["exclude"] for schedule in schedules[:2]]
    assert "written out as dates until 2028" in remarks(conversion)["spec.excludeDates[0]"].meaning


def test_days_off_that_no_day_says_are_named():
    conversion = converted(jobs(UP, DOWN, extra="\n  excludeDates: ['0 0 8 15 11 *']"), zone="UTC")

    assert "left out" in remarks(conversion)["spec.excludeDates[0]"].meaning


def test_a_job_at_midnight_is_skipped_on_other_days_of_the_month_too():
    """IsTodayOff compares month and hour: midnight is when each excluded day begins."""
    night = "name: night, schedule: 0 30 0 * * *, targetSize: 2"

    conversion = converted(jobs(UP, night, extra="\n  excludeDates: ['* * * 15 11 *']"), zone="UTC")

    assert any("skips that job on other days of the month" in remark.meaning for remark in conversion.remarks)


def test_a_weekday_7_is_one_that_the_controller_cannot_read():
    """Found: the other dialects said so."""
    conversion = converted(jobs("name: up, schedule: 0 0 8 * * 7, targetSize: 30", DOWN), zone="UTC")

    assert "the controller cannot read it" in remarks(conversion)["spec.jobs[0].schedule"].meaning
