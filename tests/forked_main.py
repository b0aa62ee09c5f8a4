"""What a process that `forked_pytest` forked runs: pytest with the arguments that it was given."""

import atexit
import json
import os
import runpy
import sys

sys.argv = ["pytest", *json.loads(os.environ.pop("PYTEST_ARGUMENTS"))]
try:
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)
finally:
    sys.stdout.flush()
    atexit._run_exitfuncs()  # a forked process ends without
