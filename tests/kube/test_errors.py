"""What an error of the API tells of the object that was asked for."""

import pytest

from cronhpa.kube.errors import UNKNOWN_RESOURCE, ClusterError, is_missing


@pytest.mark.parametrize(
    ("status", "reason", "message", "missing"),
    [
        pytest.param(404, "NotFound", 'deployments.apps "shop" not found', True, id="the object"),
        pytest.param(404, "NotFound", UNKNOWN_RESOURCE, False, id="its resource"),
        pytest.param(404, "HTTP404", "404 page not found", False, id="an API server that starts"),
        pytest.param(404, "NoKindMatch", 'no matches for kind "Rollout"', False, id="its kind"),
        pytest.param(503, "ServiceUnavailable", "the server is unavailable", False, id="an API that is away"),
        pytest.param(0, "Unreachable", "no answer", False, id="no answer"),
    ],
)
def test_an_object_is_missing_where_the_api_server_says_so_of_the_object_itself(status, reason, message, missing):
    assert missing == is_missing(ClusterError(status, reason, message))
