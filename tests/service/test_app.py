"""The service as an application: what all applications of a process share, and what they do not."""

import httpx

from redkiln.tls import tls_for
from service.app import create_app
from service.settings import Settings
from service.storage import build_storage


def test_applications_share_routes_and_no_settings(serve, app, tmp_path):
    other = create_app(Settings(state_dir=tmp_path / "other", auth="keys", reap_seconds=3600))
    shared = {id(route) for route in app.routes} & {id(route) for route in other.routes}
    assert len(shared) > 20
    assert [ask(serve(each)) for each in (app, other)] == [200, 401]


def ask(served):
    url, _ = served
    return httpx.get(f"{url}/v1/jobs", verify=tls_for(url)).status_code


def test_a_start_removes_what_a_crash_left_half_way(serve, tmp_path):
    settings = Settings(state_dir=tmp_path / "other")
    app = create_app(settings)
    folder = settings.state_dir / "staging"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "left").mkdir()
    (folder / "left" / "put-1").write_bytes(b"half")
    under_way = build_storage(settings).work_dir / "put-2"
    under_way.write_bytes(b"half")
    assert ask(serve(app)) == 200
    assert not (folder / "left").exists()
    assert under_way.exists(), "another service writes it"
