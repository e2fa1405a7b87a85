"""What each code of an error means and what to do about it: the page `/docs/problems`."""

from html import escape

from fastapi.responses import HTMLResponse

from redkiln.status import JobStatus

PAGE = "/docs/problems"
_TOO_LARGE = "The body is larger than the limit. Send less, or do what `detail` says."

CODES: dict[str, str] = {
    "already_finished": "The attempt has finished with another request. Stop it.",
    "bad_artifacts": "A file cannot be published; `errors` names it. Upload its bytes first.",
    "bad_attempt_token": "The token does not belong to this attempt. Claim a job for a new one.",
    "bad_csrf": "A request with a session's cookie needs the header `Redkiln-CSRF`.",
    "bad_event": "An event has data that does not match its kind; `errors` names the place.",
    "bad_key": "The key is unknown or revoked. Ask an admin for a new one.",
    "bad_request": "The request cannot be read; `detail` says why.",
    "blob_missing": "The job has not sent these bytes. Upload them first.",
    "builtin_dataset": "A built-in data set cannot be changed or deleted.",
    "cannot_predict": "The model cannot predict from this input; `detail` says why.",
    "conflict": "The current state does not allow this; `detail` names the state.",
    "database_busy": "The database is locked or cannot be reached. Try again after `Retry-After`.",
    "dataset_changed": "The folder differs from its registered state. Register it again.",
    "dataset_in_use": "Jobs use the data set. Wait for them, or cancel them.",
    "dataset_not_ready": "The data set is not valid. Look at its report.",
    "dataset_validating": "The data set is being validated. Try again when it is `ready`.",
    "digest_mismatch": "The bytes do not match their sha256. Send them again.",
    "empty_body": "The body is empty. Send the input.",
    "finishing": "The job is finishing already. Wait for its end.",
    "forbidden": "The key is valid but does not allow this; `detail` says why.",
    "forbidden_character": "A text has NUL or half of a surrogate pair. Remove it.",
    "foreign_host": "The `Host` header is not a name of this machine. See `REDKILN_HOST_NAMES`.",
    "foreign_origin": "Web pages of other sites may not call the service.",
    "gone": "It existed and has been deleted for good.",
    "idempotency_key_reused": "This `Idempotency-Key` belongs to another body. Use a new one.",
    "internal": "The service failed. Look for the request id in its log.",
    "invalid_digest": "The digest is not a sha256 of 64 hexadecimal digits.",
    "invalid_name": "The name is not allowed; `detail` says which names are.",
    "invalid_request": "A parameter or the body is wrong; `errors` names the place.",
    "invalid_spec": "The job spec is wrong; `errors` names each place.",
    "job_active": "The job has not ended. Cancel it or wait.",
    "job_not_succeeded": "The job has not succeeded. Use one that has.",
    "job_pausing": "The job is pausing. Try again when it is paused.",
    "job_registered": "The job's model is in the registry. Remove it there first.",
    "key_revoked": "The key is revoked. Create a new one.",
    "length_required": "Send `Content-Length`.",
    "malformed_json": "The body is not JSON in UTF-8; `detail` says where.",
    "method_not_allowed": "The path does not accept this method; `Allow` lists its methods.",
    "missing_key": "Send the API key as `Authorization: Bearer KEY`.",
    "no_artifacts": "A successful attempt must list its artifacts.",
    "no_asset": "The page has no such file. Reload it.",
    "no_benchmark": "The worker has no benchmark. Run `redkiln bench`.",
    "no_checkpoint": "The job has no checkpoint. Submit it again.",
    "no_evaluation": "The job has no evaluation.",
    "no_filter": "A change to many jobs needs a filter. Add one, such as `status`.",
    "no_live_worker": "No live worker can do this. Start one.",
    "no_login": "The service requires no key, so nobody has to log in.",
    "no_model": "The job has no model.",
    "no_picture": "The data set has no such picture.",
    "no_preview": "The job has no preview yet.",
    "no_rows": "The data set has no such rows.",
    "no_samples": "The data set has no such samples.",
    "not_a_model": "The file is not a model.",
    "not_finite": "A number is NaN or infinite. Send a finite number or null.",
    "not_found": "There is no such thing; `/docs` lists every path.",
    "nul_character": "The path or query contains NUL. Remove it.",
    "name_taken": "Another project has a model of this name. Choose another name.",
    "other_project": "It belongs to another project. Use a key of that project, or ask an admin.",
    "parts_missing": "Parts of the upload are missing. Send them.",
    "payload_too_large": _TOO_LARGE,
    "content_too_large": _TOO_LARGE,
    "precondition_failed": "A condition in the request's headers is not met, such as `If-Match`.",
    "protocol_mismatch": "Worker and service have different releases. Update the older one.",
    "range_not_satisfiable": "The range is outside the content.",
    "request_entity_too_large": _TOO_LARGE,
    "request_header_fields_too_large": "The headers are too large.",
    "request_timeout": "The request arrived too slowly. Send it again.",
    "scripts_not_allowed": "Scripts need a key with scope `scripts`, or `REDKILN_SCRIPTS=on`.",
    "sequence_gap": "Events are missing. Send all from `expected_seq` on.",
    "service_unavailable": "The service has too many connections. Try again.",
    "session_expired": "Log in again.",
    "size_mismatch": "The stored bytes have another size. Upload them again.",
    "split_too_large": "The test split is too large to be given. Use your own copy.",
    "storage_full": "The service's disk is full. Free some space.",
    "superseded": "The attempt belongs to another worker. Stop it.",
    "storage_quota": "The project has reached its storage limit. Delete jobs or data sets; "
    "`redkiln storage` lists the largest.",
    "too_large": _TOO_LARGE,
    "too_many_requests": "The key sends too many requests. Wait for `Retry-After`.",
    "too_many_waiting": "The project has too many waiting jobs. Submit again later.",
    "unauthorized": "The request needs a valid key.",
    "unavailable": "The service cannot do this now. Try again after `Retry-After`.",
    "unknown_parameter": "The query parameter is unknown; `errors` names the nearest known one.",
    "unprocessable": "The request is understood but cannot be carried out; `detail` says why.",
    "unsupported_media_type": "The content type is not accepted; `detail` lists those that are.",
    "unsupported_onnx": "The ONNX file uses something that is not supported; `detail` names it.",
    "upload_finishing": "The upload is finishing already. Ask for its state.",
    "version_has_alias": "An alias points to the version. Move the alias first.",
    "wrong_format": "The body is not what its `Content-Type` says. Send another type.",
    "waiting": "The job waits already.",
    "wrong_scope": "The key has another scope. Use one that `detail` names.",
    **{
        f"job_{status}": f"The job is {status}, so this is not possible."
        for status in JobStatus
        if status is not JobStatus.PAUSING
    },
}


def type_of(code: str) -> str:
    """Return the `type` of a problem: a URL, relative to the service, that explains its code."""
    return f"{PAGE}#{code}"


async def show_problems() -> HTMLResponse:
    """Serve the page that explains every code, each with its anchor."""
    entries = "".join(
        f'<dt id="{code}"><code>{code}</code></dt><dd>{escape(words)}</dd>'
        for code, words in sorted(CODES.items())
    )
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Problems</title>'
    return HTMLResponse(f"{head}<h1>Codes of errors</h1><dl>{entries}</dl></html>")
