import subprocess
import sys


def test_an_image_job_does_not_import_what_only_texts_need():
    code = (
        "import sys, worker.trainer.run, worker.trainer.spare\n"
        "heavy = {'transformers', 'tokenizers', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
