"""The examples of docs/python.md that use a model, against the real service."""

import re
from pathlib import Path

from redkiln.client import Client
from tests.redkiln.predict.models import save_prices

GUIDE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_guides_examples_predict_register_and_download(client, publish, tmp_path, monkeypatch):
    save_prices(tmp_path / "model")
    publish(tmp_path / "model", name="houses")
    _, _, section = GUIDE.read_text().partition("\n## Models\n")
    blocks = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    with Client(str(client.base_url)) as own:
        printed = []
        scope = {"client": own, "print": lambda *values: printed.append(values)}
        for block in blocks:
            exec(block, scope)
        assert own.model_version("houses", "candidate").version == 1
        assert own.model_version("houses", "production").version == 1
    # 100 * rooms + year + 1000 * place of the colour
    assert printed == [(3301.0, []), ("row 1", 3301.0), ([],)]
    assert (tmp_path / "houses.onnx").read_bytes() == (tmp_path / "model/model.onnx").read_bytes()
