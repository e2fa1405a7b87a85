"""A package that is installed from a file: nothing is fetched, and nothing is built."""

import zipfile

WHEEL = "tiny_own-1.0-py3-none-any.whl"


def write_wheel(path, needs=(), *, says="1.0"):
    """A wheel of the module `tiny_own`, of the same bytes whenever it `says` the same version."""
    info = "tiny_own-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: tiny-own\nVersion: 1.0\n"
    files = {
        "tiny_own.py": f"VERSION = {says!r}\n",
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {need}\n" for need in needs),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(zipfile.ZipInfo(name), text)
