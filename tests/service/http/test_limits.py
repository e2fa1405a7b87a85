import pytest

from service.http.limits import body_limit
from service.settings import Settings

SETTINGS = Settings(
    max_json_bytes=2000, max_report_bytes=3000, max_upload_bytes=4000, upload_part_bytes=1500
)


@pytest.mark.parametrize(
    ("method", "path", "content_type", "limit"),
    [
        ("POST", "/v1/jobs", "application/json", 2000),
        ("POST", "/v1/jobs", "application/octet-stream", 2000),
        ("POST", "/v1/attempts/att_1/report", "application/json", 3000),
        ("POST", "/v1/attempts/att_1/finish", "application/json", 3000),
        ("PUT", "/v1/attempts/att_1/blobs/00", "", 4000),
        ("POST", "/v1/attempts/att_1/blobs/00", "", 2000),
        ("PUT", "/v1/uploads/upl_1/parts/0", "application/octet-stream", 1500),
        ("POST", "/v1/datasets", "application/zip", 4000),
        ("POST", "/v1/datasets", "Application/JSON; charset=utf-8", 2000),
        ("POST", "/v1/datasets/x", "application/zip", 2000),
    ],
)
def test_only_upload_endpoints_accept_large_bodies(method, path, content_type, limit):
    assert body_limit(method, path, content_type, SETTINGS).size_bytes == limit
