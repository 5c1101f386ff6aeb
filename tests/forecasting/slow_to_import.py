"""Its import notes the process beside the file that MAY_START names, and waits until that file is there."""

import os
import time
from pathlib import Path

may_start = Path(os.environ["MAY_START"])
with may_start.with_name("importing").open("a") as importing:
    print(os.getpid(), file=importing)
while not may_start.exists():
    time.sleep(0.01)
