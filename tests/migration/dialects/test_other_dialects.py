"""
cronhpa.migration.dialects.tkestack, cronhpa.migration.dialects.huawei, cronhpa.migration.dialects.dtaniwaki, cronhpa.migration.dialects.d_kuro, cronhpa.migration.dialects.kapacity, cronhpa.migration.dialects.phpa, cronhpa.migration.dialects.zalando, cronhpa.migration.documents.workload, cronhpa.migration.dialects.kube_downscaler, cronhpa.migration.dialects.kube_green, cronhpa.migration.dialects.gcp: each difference is named.

That their windows are right is shown minute by minute in test_minute_by_minute.py.
"""  # noqa: E501 - the first line names the modules

import json

import pytest
import yaml

from migration.reading import MANIFESTS, converted, only, remarks

CRON_FILES = ("dtaniwaki", "d-kuro", "zalando", "kube-downscaler", "kube-green")


def changed(name, *pairs):
    """The manifest file with other texts in it."""
    text = (MANIFESTS / f"{name}.yaml").read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("name", CRON_FILES)
def test_what_means_the_same_has_no_remark(name):
    assert () == converted(f"{name}.yaml").remarks


@pytest.mark.parametrize(
    ("name", "pairs", "words"),
    [
        ("tkestack", [("0 23 * * 0", "0 23 * * 7")], "the controller cannot read it"),
        ("tkestack", [], "took UTC"),
        ("huawei", [], "took Asia/Shanghai"),
        ("huawei", [("disable: true", "disable: false, targetReplicas: x")], "a whole number belongs here"),
        ("dtaniwaki", [("patch: {minReplicas: 1}", "patch: {minReplicas: 1, metrics: []}")], "no targets"),
        ("dtaniwaki", [("12 * * 1-5, timezone: Asia/Tokyo", "12 * * 1-5, timezone: UTC")], "no clock has all"),
        ("d-kuro", [('"14:30"', '"06:30"')], "here it is open until 06:30"),
        ("d-kuro", [("maxReplicas: 20\n  type: Daily", "maxReplicas: 30\n  type: Daily")], "the larger one"),
        ("d-kuro", [("type: Daily", "type: Monthly")], "Daily, Weekly and OneShot are read"),
        ("d-kuro", [("2026-11-27", "2025-11-27"), ("2026-11-28", "2025-11-28")], "left out: it is past"),
        (
            "d-kuro",
            [("kind: ScheduledPodAutoscaler, name: shop}\n  minReplicas: 6", "name: x}\n  minReplicas: 6")],
            "x",
        ),
        ("kapacity", [], "scaleDown waits for 300 s"),
        ("kapacity", [("priority: 0\n    cron", "priority: -1\n    cron")], "it never decides"),
        ("kapacity", [("Static, static: {replicas: 1}", "Other")], "Static, Cron and Dynamic are read"),
        ("kapacity", [("Reactive", "Predictive")], "two days of load"),
        ("phpa", [("tolerance", "decisionType: mean\n  tolerance")], "the largest decides"),
        ("phpa", [("20000", "20500")], "took 20 s"),
        ("zalando", [("  scalingWindowDurationMinutes: 0\n", "")], "no ramp follows the end"),
        ("zalando", [('"19:15"', '"22:15"')], "ends it at midnight"),
        ("zalando", [("timezone: Europe/Berlin", "timezone: Berlin")], "took Europe/Berlin"),
        ("zalando", [("2026-11-27", "2025-11-27")], "left out: it is past"),
        ("zalando", [("name: hours}\n      metric", "name: other}\n      metric")], "convert both together"),
        ("zalando", [("AverageValue, averageValue", "Value, value")], "averageValue"),
        ("kube-downscaler", [("07:30-20:30 Europe/Berlin", "07:30-20:30")], "took UTC"),
        ("kube-downscaler", [("07:30-20:30", "20:30-07:30")], "never within"),
        ("kube-downscaler", [("Mon-Fri 07:30", "07:30")], "are read"),
        ("kube-downscaler", [('downtime-replicas: "1"', 'downtime-replicas: "²"')], "a whole number is read"),
        ("kube-downscaler", [("    team", "    downscaler/grace-period: 3\n    team")], "there is no counterpart"),
        ("kube-green", [('  wakeUpAt: "08:00"\n', "")], "nothing ends the sleep"),
        ("kube-green", [("replicas: 3", "replicas: 0")], "is not known"),
        ("kube-green", [("timeZone", "suspendCronJobs: true\n  timeZone")], "CronJobs are not scaled"),
        ("kube-green", [("namespace: dev}\nspec: {", "namespace: prod}\nspec: {")], "convert them together"),
        ("aws", [("cron(0 20 * * ? *)", "rate(1 hour)")], "cron() and at() are read"),
        (
            "aws",
            [('"MinCapacity": 2', '"MinCapacity": 2}, "EndTime": "2027-01-01", "X": {')],
            "suspend the schedule then",
        ),
        (
            "aws",
            [('"MinCapacity": 2', '"MinCapacity": 2}, "StartTime": "2031-01-01T00:00:00Z", "X": {')],
            "suspend the schedule until then",
        ),
        (
            "aws",
            [('cron(30 6 ? * 1 *)", "Timezone": "Europe/Berlin', 'cron(30 6 ? * 1 *)", "Timezone": "UTC')],
            "no clock",
        ),
        ("gcp", [("* * Sat", "1 1 * 2027")], "found the year 2027"),
        ("gcp", [("18000", "17999")], "rounded up"),
        ("gcp", [('Target": 0.6', 'Target": .nan')], "takes more than 0"),
        ("gcp", [('Target": 0.6', 'Target": 0')], "takes more than 0"),
    ],
)
def test_each_difference_is_a_remark(name, pairs, words):
    conversion = converted(changed(name, *pairs))

    assert any(words in str(remark) for remark in conversion.remarks), [str(remark) for remark in conversion.remarks]


def test_an_hpa_of_a_workload_that_sleeps_is_part_of_its_cron_hpa():
    """Awake, the HPA's bounds and metrics; asleep, none, which the metrics cannot raise."""
    hpa = """---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: shop-hpa, namespace: dev}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}, minReplicas: 2, maxReplicas: 8}
"""
    conversion = converted(changed("kube-green") + hpa)

    assert "shop-hpa" == conversion.manifests[0]["metadata"]["name"]
    spec = only(conversion)
    assert (2, 8, 0) == (spec["minReplicas"], spec["maxReplicas"], spec["schedules"][0]["replicas"])
    assert "metrics" in spec


def test_the_annotations_of_a_namespace_are_those_of_its_workloads():
    namespace = (
        "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: dev, annotations: {downscaler/downtime: always}}\n"
    )

    conversion = converted(changed("kube-green") + namespace)

    # By kube-green as well: both Deployments, and one of them twice, which is named.
    assert ["shop", "shop", "api-gateway"] == [manifest["metadata"]["name"] for manifest in conversion.manifests]
    assert any("one replaces the other" in remark.meaning for remark in conversion.remarks)


def test_an_excluded_workload_is_left_alone():
    conversion = converted(changed("kube-downscaler", ("    team", '    downscaler/exclude: "true"\n    team')))

    assert ["weekend"] == [manifest["metadata"]["name"] for manifest in conversion.manifests]


def test_a_schedule_that_no_hpa_names_is_named():
    alone = "\n---\n".join(changed("zalando").split("\n---\n")[:1])

    conversion = converted(alone)

    assert "no HorizontalPodAutoscaler of the input names hours" == remarks(conversion)["metadata.name"].finding


def test_the_metric_of_a_schedule_goes_and_the_others_stay():
    kinds = [metric["type"] for metric in only(converted("zalando.yaml"))["metrics"]]

    assert ["Resource"] == kinds


def test_a_group_of_autoscaling_groups_is_an_object_each():
    """`aws autoscaling describe-scheduled-actions` of two groups; its cron texts have five fields."""
    actions = [
        {"AutoScalingGroupName": f"group-{letter}", "ScheduledActionName": name, "Recurrence": text, "MinSize": size}
        for letter in "ab"
        for name, text, size in (("up", "0 8 * * 1-5", 10), ("down", "0 20 * * *", 2))
    ]

    conversion = converted(yaml.safe_dump({"ScheduledUpdateGroupActions": actions}))

    assert ["group-a", "group-b"] == [manifest["metadata"]["name"] for manifest in conversion.manifests]
    assert [10, 2] == [schedule["minReplicas"] for schedule in conversion.manifests[0]["spec"]["schedules"]]


@pytest.mark.parametrize("start", ["2026-11-27T09:00:00Z", 1795770000.0], ids=["version 2", "version 1"])
def test_a_desired_capacity_alone_is_a_minimum_and_says_so(start):
    actions = [
        {
            "AutoScalingGroupName": "a",
            "ScheduledActionName": "once",
            "StartTime": start,
            "DesiredCapacity": 9,
        },
        {"AutoScalingGroupName": "a", "ScheduledActionName": "down", "Recurrence": "0 20 * * *", "MinSize": 2},
        {"AutoScalingGroupName": "a", "ScheduledActionName": "up", "Recurrence": "0 8 * * *", "MinSize": 4},
    ]

    conversion = converted(yaml.safe_dump({"ScheduledUpdateGroupActions": actions}))

    once = next(schedule for schedule in only(conversion)["schedules"] if "from" in schedule)
    assert ("2026-11-27T09:00", "2026-11-27T20:00", 9) == (once["from"], once["to"], once["minReplicas"])
    assert any("which its policies change" in str(remark) for remark in conversion.remarks)


@pytest.mark.parametrize("off", ['"OFF"', "OFF"])
def test_an_autoscaler_of_google_cloud_that_is_off_becomes_a_preview(off):
    """Found: OFF without quotes is false in YAML, and was refused as no text."""
    conversion = converted(changed("gcp", ('"ON"', off)))

    assert "Preview" == only(conversion)["mode"]
    assert "found OFF" == remarks(conversion)["policy.mode"].finding


@pytest.mark.parametrize("on", ['"ON"', "ON"])
def test_an_autoscaler_of_google_cloud_that_is_on_is_active(on):
    conversion = converted(changed("gcp", ('"ON"', on)))

    assert "mode" not in only(conversion)
    assert "policy.mode" not in remarks(conversion)


@pytest.mark.parametrize("mode", ["ONLY_SCALE_OUT", "ONLY_UP"])
def test_an_autoscaler_of_google_cloud_that_only_scales_out_never_scales_down(mode):
    conversion = converted(changed("gcp", ("ON", mode)))

    assert {"scaleDown": {"selectPolicy": "Disabled"}} == only(conversion)["behavior"]
    assert "mode" not in only(conversion)
    assert "policy.mode" not in remarks(conversion)


def test_the_group_that_gcloud_describes_has_its_autoscaler_within():
    autoscaler = yaml.safe_load(changed("gcp"))[0]

    conversion = converted(yaml.safe_dump({"name": "shop", "autoscaler": autoscaler}))

    assert "shop" == conversion.manifests[0]["metadata"]["name"]
    assert [60, 300, 480] == sorted(schedule["durationMinutes"] for schedule in only(conversion)["schedules"])


@pytest.mark.parametrize(("asked", "floor"), [(3, 5), (8, 8), (30, 20)])
def test_a_scaling_schedule_of_google_cloud_stays_within_the_group_s_bounds(asked, floor):
    schedule = {"schedule": "0 8 * * *", "durationSec": 3600, "minRequiredReplicas": asked}
    policy = {"minNumReplicas": 5, "maxNumReplicas": 20, "scalingSchedules": {"low": schedule}}

    conversion = converted(yaml.safe_dump({"name": "shop", "autoscalingPolicy": policy}))

    assert [floor] == [window["minReplicas"] for window in only(conversion)["schedules"]]


@pytest.mark.parametrize("load", ["loadBalancingUtilization", "customMetricUtilizations"])
def test_of_a_group_that_google_cloud_scales_by_another_load_than_cpu_none_is_made(load):
    """Found: its schedules alone, so that outside of them the count was the minimum, whatever the load."""
    schedule = {"schedule": "0 8 * * *", "durationSec": 3600, "minRequiredReplicas": 9}
    policy = {"maxNumReplicas": 20, load: {"utilizationTarget": 0.8}, "scalingSchedules": {"low": schedule}}

    conversion = converted(yaml.safe_dump({"name": "shop", "autoscalingPolicy": policy}))

    assert () == conversion.manifests
    assert "windows alone would follow no load" in remarks(conversion)[f"policy.{load}"].meaning


def test_a_zalando_schedule_never_lowers_the_hpa_s_minimum():
    conversion = converted(changed("zalando", ("minReplicas: 2", "minReplicas: 7")))

    assert [17, 7, 60, 7] == [window["minReplicas"] for window in only(conversion)["schedules"]]


def test_steps_of_aws_s_weekdays_stay_steps():
    """AWS counts from 1, Sunday: 2/2 is Monday, Wednesday and Friday."""
    action = {"ScheduledActionName": "up", "ResourceId": "service/cluster/shop", "Schedule": "cron(0 8 ? * 2/2 *)"}
    night = {**action, "ScheduledActionName": "down", "Schedule": "cron(0 20 ? * */2 *)"}
    actions = [
        {**action, "ScalableTargetAction": {"MinCapacity": 5}},
        {**night, "ScalableTargetAction": {"MinCapacity": 1}},
    ]

    conversion = converted(json.dumps({"ScheduledActions": actions}))

    days = {text.split()[-1] for window in only(conversion)["schedules"] for text in (window["start"], window["end"])}
    assert {"1/2", "*/2"} == days


def test_kapacity_s_one_cron_alone_keeps_its_count_there_and_says_so():
    """Found: outside of it Kapacity scales nothing, and the CronHPA went to minReplicas without a word."""
    only_static = "  - {priority: 1, type: Static, static: {replicas: 1}}\n"
    evening = next(line for line in changed("kapacity").splitlines(True) if "evening" in line)

    conversion = converted(changed("kapacity", (only_static, ""), (evening, "")))

    remark = next(remark for remark in conversion.remarks if remark.path.endswith("/shop.spec.portraitProviders"))
    assert "keeps the replicas that it finds" in remark.finding
    assert "minReplicas (0) holds" in remark.meaning


def test_kapacity_s_crons_without_a_zone_are_in_utc():
    """The default of its CRD: the zone of the controller is none of it."""
    conversion = converted(changed("kapacity", (", timeZone: UTC", "")), zone="Europe/Berlin")

    assert "UTC" == conversion.manifests[1]["spec"]["schedules"][0]["timeZone"]


def test_a_paused_kapacity_object_only_previews():
    conversion = converted(changed("kapacity", ("paused: false", "paused: true")))

    assert "Preview" == conversion.manifests[0]["spec"]["mode"]


def test_a_crane_cron_of_the_zone_local_takes_the_zone_that_is_given():
    """Found: Local was refused, and every cron said so."""
    crane = (MANIFESTS / "crane.yaml").read_text().replace("timezone: Asia/Shanghai", "timezone: Local")

    given, not_given = converted(crane, zone="Europe/Berlin"), converted(crane)

    zones = [schedule["timeZone"] for schedule in given.manifests[0]["spec"]["schedules"]]
    assert ["Europe/Berlin", "Europe/Berlin"] == zones
    assert 1 == sum("--time-zone" in remark.meaning for remark in not_given.remarks)
    assert not any("--time-zone" in remark.meaning for remark in given.remarks)


def test_an_hpa_that_kube_downscaler_changes_says_so():
    conversion = converted(
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
        "metadata: {name: shop, annotations: {downscaler/uptime: Mon-Fri 07:30-20:30 UTC}}\n"
        "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: shop}, maxReplicas: 3}\n"
    )

    assert (
        "stop kube-downscaler before you apply"
        in remarks(conversion)["metadata.annotations[downscaler/uptime]"].meaning
    )
    assert "annotations" not in conversion.manifests[0]["metadata"]


def downscaled(of_workload="", of_namespace=""):
    """A Deployment with these annotations of kube-downscaler, in a namespace with those."""
    return converted(
        f"""
        apiVersion: v1
        kind: Namespace
        metadata: {{name: dev, annotations: {{{of_namespace}}}}}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: shop, namespace: dev, annotations: {{{of_workload}}}}}
        spec: {{replicas: 3}}
        """
    )


HOURS = "Mon-Fri 19:00-20:00 UTC"


@pytest.mark.parametrize("uptime", ["", f"downscaler/uptime: {HOURS}, "])
@pytest.mark.parametrize("key", ["downscale-period", "upscale-period"])
def test_a_workload_that_kube_downscaler_moves_by_periods_says_so(key, uptime):
    """Found: alone it was passed over without a word; beside an uptime, which then does nothing, that was taken."""
    conversion = downscaled(f"{uptime}downscaler/{key}: {HOURS}")

    assert () == conversion.manifests
    assert "only uptime and downtime are read" in remarks(conversion)[f"metadata.annotations[downscaler/{key}]"].meaning


@pytest.mark.parametrize("key", ["force-uptime", "force-downtime"])
def test_what_a_namespace_forces_at_times_is_said_of_its_workloads(key):
    conversion = downscaled(f"downscaler/uptime: {HOURS}", f"downscaler/{key}: {HOURS}")

    assert () == conversion.manifests
    assert f"metadata.annotations[downscaler/{key}]" in remarks(conversion)


@pytest.mark.parametrize(
    ("of_workload", "of_namespace"),
    [
        ("downscaler/exclude: 'yes'", ""),
        ("downscaler/exclude: 'TRUE'", ""),
        ("", "downscaler/exclude: 'true'"),
        ("downscaler/exclude: 'false'", "downscaler/exclude: 'true'"),
        ("", "downscaler/force-uptime: 'true'"),
        ("downscaler/force-uptime: 'false'", "downscaler/force-uptime: 'True'"),
    ],
)
def test_what_kube_downscaler_leaves_alone_gets_no_windows(of_workload, of_namespace):
    """Found: any value but false excludes there; here it had to be true, and a workload took its namespace's back."""
    conversion = downscaled(", ".join(filter(None, [f"downscaler/uptime: {HOURS}", of_workload])), of_namespace)

    assert () == conversion.manifests


@pytest.mark.parametrize("value", ["'false'", "'False'"])
def test_what_is_excluded_by_false_is_not(value):
    assert 1 == len(downscaled(f"downscaler/uptime: {HOURS}, downscaler/exclude: {value}").manifests)


def test_what_a_workload_forces_is_not_read_there_either():
    conversion = downscaled(f"downscaler/uptime: {HOURS}, downscaler/force-uptime: 'true'")

    assert ["asleep", "uptime"] == [schedule["name"] for schedule in only(conversion)["schedules"]]
    assert "of namespaces" in remarks(conversion)["metadata.annotations[downscaler/force-uptime]"].meaning


def test_a_start_and_an_end_at_one_time_are_told_apart():
    """KEDA is active before them, Kapacity is not (pkg/util/time.go); here the start counts, so KEDA's is no remark."""
    kapacity = changed("kapacity", ("start: 0 9 * * *, end: 0 11 * * *", 'start: 0 9 * * 0-6, end: "0 9 * * *"'))

    assert any("is inactive, because the next edge is" in remark.finding for remark in converted(kapacity).remarks)


def test_a_downtime_within_a_minute_is_a_window_of_a_minute():
    """Found: its seconds were cut off, and the API server refused a window without length."""
    conversion = converted(
        """
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: shop
          annotations: {downscaler/downtime: "2027-01-01T00:00:10+00:00-2027-01-01T00:00:50+00:00"}
        spec: {replicas: 3}
        """
    )

    (window,) = only(conversion)["schedules"]
    assert ("2027-01-01T00:00", "2027-01-01T00:01") == (window["from"], window["to"])


def test_a_group_of_machines_that_may_have_none_keeps_one_pod_by_cpu():
    """Found: minReplicas 0 beside CPU alone, which the API server refuses, without a remark."""
    policy = {"minNumReplicas": 0, "maxNumReplicas": 9, "cpuUtilization": {"utilizationTarget": 0.6}}
    conversion = converted(yaml.safe_dump({"name": "shop", "autoscalingPolicy": policy}))

    assert 1 == only(conversion)["minReplicas"]
    assert "took 1" in remarks(conversion)["policy.minNumReplicas"].meaning


def test_a_zalando_entry_without_length_is_left_out():
    """Found: it made a window that the API server refuses."""
    entry = "- {type: OneTime, date: 2026-11-27T00:00:00Z, durationMinutes: 0, value: 9}"
    conversion = converted(changed("zalando", ("  schedules:\n", f"  schedules:\n  {entry}\n")))

    assert "never active" in remarks(conversion)["spec.schedules[0].endDate"].meaning
    assert len(only(converted("zalando.yaml"))["schedules"]) == len(only(conversion)["schedules"])


def test_a_sleep_that_ends_when_it_begins_is_refused():
    """Found: kube-green wakes at every second such time, and the CronHPA slept for ever."""
    conversion = converted(
        """
        apiVersion: kube-green.com/v1alpha1
        kind: SleepInfo
        metadata: {name: night, namespace: dev}
        spec: {weekdays: "1-5", sleepAt: "20:00", wakeUpAt: "20:00"}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: shop, namespace: dev}
        spec: {replicas: 3}
        """
    )

    assert () == conversion.manifests
    assert "an end of its own" in conversion.remarks[0].meaning


def test_a_deployment_s_revision_stays_its_own():
    """Found: a CronHPA that was made of a live Deployment had it, too."""
    own = "metadata: {name: shop, annotations: {deployment.kubernetes.io/revision: '5', downscaler/downtime: always}}"
    conversion = converted(f"apiVersion: apps/v1\nkind: Deployment\n{own}\nspec: {{replicas: 3}}\n")

    assert "annotations" not in conversion.manifests[0]["metadata"]


@pytest.mark.parametrize("end", ["2025-12-01T00:00:00+00:00", 1764547200.0], ids=["version 2", "version 1"])
def test_an_action_of_aws_that_has_ended_is_left_out(end):
    """As each version of the AWS CLI prints it. Found: it went on for ever."""
    actions = [
        {"ScheduledActionName": name, "ResourceId": "service/cluster/shop", "Schedule": f"cron(0 {hour} ? * * *)",
         "ScalableTargetAction": {"MinCapacity": least}}
        for name, hour, least in (("up", 8, 5), ("down", 20, 1), ("sale", 10, 40))
    ]  # fmt: skip
    actions[2]["EndTime"] = end

    conversion = converted(json.dumps({"ScheduledActions": actions}))

    assert {5, 1} == {window["minReplicas"] for window in only(conversion)["schedules"]}
    assert "it is past" in remarks(conversion)["actions[2].EndTime"].meaning
