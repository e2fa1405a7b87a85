"""Checks a user's own network when a job is submitted, as far as reading its code shows."""

import json
from collections.abc import Mapping
from typing import Any

from redkiln.spec.image_models import Model
from redkiln.spec.own_code import CODE
from redkiln.spec.problems import SpecProblem
from service.bundles.checking import run_check
from service.bundles.models import Bundle
from service.errors import Unprocessable
from service.services import Services

_DIED = "the code could not be read within the limits of a check (1 GB of memory, 20 s of CPU time)"


def check_own_code(services: Services, body: Any) -> None:
    """Check the code that a spec names. Other mistakes in the spec are found later.

    Raises:
        Unprocessable: The file or the class is missing, is not Python, or takes other arguments.
    """
    model = body.get("model") if isinstance(body, dict) else None
    if not isinstance(model, dict) or model.get("source") != CODE:
        return
    try:
        fields = Model.model_validate(model).model_dump(mode="json")
    except ValueError:
        return
    sha256 = str(fields["bundle"])
    if services.database.read(lambda session: session.get(Bundle, sha256)) is None:
        return
    problems = _find_problems(services, sha256, fields)
    if problems:
        detail = "; ".join(f"{problem.pointer}: {problem.message}" for problem in problems)
        raise Unprocessable(detail, code="invalid_spec", errors=problems)


def _find_problems(services: Services, sha256: str, fields: Mapping[str, Any]) -> list[SpecProblem]:
    with services.storage.local_copy(sha256) as path:
        content = json.dumps(fields).encode()
        answer = run_check("service.bundles.code_check", [str(path.absolute())], content=content)
    found = [("/model/bundle", _DIED)] if answer is None else json.loads(answer)
    return [SpecProblem(pointer, "bad_code", message) for pointer, message in found]
