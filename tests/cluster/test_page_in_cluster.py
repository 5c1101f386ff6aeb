"""The page of the real operator in a real browser, with a token of the real API server."""

from __future__ import annotations

import os
import shutil
import time

import pytest
from playwright.sync_api import expect, sync_playwright

from browser.chromium import ARGUMENTS, PATIENT_MS, chromium
from testbed.twin import Scaled

RBAC = "rbac.authorization.k8s.io"


def token_of_reader(control_plane, namespace):
    """Of an account that may get the CronHPAs of its namespace; the token is good for the page and nothing else."""
    meta = {"name": "reader", "namespace": namespace}
    rule = {"apiGroups": ["cronhpa.io"], "resources": ["cronhpas"], "verbs": ["get"]}
    role, subject = {"apiGroup": RBAC, "kind": "Role", "name": "reader"}, {"kind": "ServiceAccount", **meta}
    control_plane.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    control_plane.apply({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": meta, "rules": [rule]})
    binding = {"metadata": meta, "roleRef": role, "subjects": [subject]}
    control_plane.apply({"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", **binding})
    asked = ("create", "token", "reader", "-n", namespace, "--audience", "cronhpa.io", "--duration", "10m")
    return control_plane.kubectl(*asked).strip()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not there: it brings the browser")
def test_a_reader_signs_in_and_watches_their_object_scale(control_plane, operator, namespace, plant):
    shop = Scaled(control_plane, namespace, "web", replicas=2, timeZone="Europe/Berlin")
    shop.load = plant.add_target(namespace, shop.labels, 0.9)
    shop.says("Ready", "True", "Deciding")
    control_plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-other"}})
    hidden = Scaled(control_plane, f"{namespace}-other", "hidden", replicas=1)
    hidden.load = plant.add_target(f"{namespace}-other", hidden.labels, 0.3)
    token = token_of_reader(control_plane, namespace)
    binary = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(binary.path), args=ARGUMENTS, env={**os.environ, **binary.environment}
        )
        page = browser.new_page(viewport={"width": 1400, "height": 900}, locale="en-GB")
        page.set_default_timeout(PATIENT_MS)
        page.goto(operator.page_url)
        page.get_by_label("Bearer token").fill(token)
        page.keyboard.press("Enter")
        rows = page.locator(".rows .row")
        expect(rows).to_have_count(1, timeout=PATIENT_MS)
        expect(rows).to_contain_text("web")
        expect(page.locator("#who")).to_have_text(f"system:serviceaccount:{namespace}:reader")

        plant.set_load(shop.load, 2.9)
        shop.reaches(6)
        expect(rows.locator(".c-count")).to_have_text("6", timeout=PATIENT_MS)
        time.sleep(12)  # decisions are written every five seconds
        page.locator(".rows a").click()
        page.wait_for_selector(".panels .panel")
        expect(page.locator(".explained")).to_contain_text(f"{namespace}/web")
        expect(page.locator("#sentence")).to_contain_text("decided by Metric/cpu")

        page.evaluate("(hash) => { location.hash = hash; }", f"#/object/{namespace}-other/hidden")
        expect(page.locator(".empty")).to_have_text("there is no such object, or it is not for you")
        browser.close()
    control_plane.kubectl("delete", "namespace", f"{namespace}-other", "--wait=false")
