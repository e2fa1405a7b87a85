import json
import subprocess
import sys

CODE = """
import json, sys, worker.trainer.run, worker.trainer.spare
print(json.dumps(list(sys.modules)))
worker.trainer.spare.warm_up()
print(json.dumps(list(sys.modules)))
"""


def test_a_job_of_a_builtin_image_model_imports_neither_what_texts_need_nor_a_library_of_models():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    imported, warm = (set(json.loads(line)) for line in done.stdout.splitlines())
    assert not imported & {"transformers", "tokenizers", "pyarrow"}
    assert not warm & {"transformers", "timm", "huggingface_hub"}
