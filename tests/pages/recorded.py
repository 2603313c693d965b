"""What the lesson says of the runs that it shows, apps/lesson/recorded.json."""

import json
import pathlib

import numpy

FILE = pathlib.Path(__file__).parents[2] / "apps/lesson/recorded.json"


def of_unlike_data():
    """How many times further apart the workers are with unlike data, by the means of the exact
    distances, which are taken at the same epochs; the last top-1 of both, unlike data first."""
    runs = {run["name"]: run for run in json.loads(FILE.read_text())["runs"]}
    alike, unlike = runs["alike"], runs["unlike"]
    assert alike["exact"]["epoch"] == unlike["exact"]["epoch"]
    far = numpy.array([run["exact"]["distance"] for run in (unlike, alike)])
    return [far[0].mean() / far[1].mean(), unlike["own"]["top1"][-1], alike["own"]["top1"][-1]]
