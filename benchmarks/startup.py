"""The two start-up workloads: nothing may be imported here before the clock starts, so that all of it is counted.

python benchmarks/startup.py import|ready
"""

import sys
import time

if sys.argv[1] == "import":
    start = time.perf_counter()
    import amplifier_core  # noqa: F401
else:
    plan = {"session": {"orchestrator": {"module": "loop-bench"}, "context": {"module": "context-bench"}}}
    start = time.perf_counter()
    from amplifier_core import AmplifierSession

    AmplifierSession(plan)
print(f'{{"us": {(time.perf_counter() - start) * 1e6}}}', flush=True)
