"""Times onnxruntime on a model of images [N, 3, side, side].

    python onnxruntime_peer.py MODEL.onnx BATCH THREADS SECONDS

Prints one JSON object: images_per_s and ms_median of at least five calls, cpu_ms_median of the
process's CPU time, and the version.
"""

import json
import statistics
import sys
import time

import numpy
import onnxruntime

path, batch, threads, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.inter_op_num_threads = 1
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
given = session.get_inputs()[0]
images = numpy.random.default_rng(0).standard_normal((batch, *given.shape[1:]), numpy.float32)
for _ in range(2):
    session.run(None, {given.name: images})
times, cpu = [], []
begin = last = time.perf_counter()
while last < begin + seconds or len(times) < 5:
    before = time.process_time()
    session.run(None, {given.name: images})
    cpu.append(time.process_time() - before)
    now = time.perf_counter()
    times.append(now - last)
    last = now
middle = statistics.median(times)
result = {"images_per_s": batch / middle, "ms_median": 1e3 * middle}
result["cpu_ms_median"] = 1e3 * statistics.median(cpu)
print(json.dumps({**result, "version": onnxruntime.__version__}))
