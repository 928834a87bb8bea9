"""Sample the evaluation sets of TwoRoom from the 10,000 logged episodes of seed 0, and write them into the package.

A test compares the stored files with what this writes.
"""

import reachcost as rc
from reachcost.data.evaluation import write_evaluation_set
from reachcost.tasks.tworoom.logs import FROZEN, sample_set

if __name__ == "__main__":
    task = rc.make_task("tworoom")
    logs = task.generate_logs()
    for name in task.sets:
        write_evaluation_set(sample_set(name, logs, task.layout), FROZEN / f"{name}.json")
