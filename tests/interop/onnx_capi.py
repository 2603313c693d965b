#!/usr/bin/env python3
"""ONNX files that the C API writes, computed by onnxruntime.

    onnx_capi.py LIBGOSSAMER.so

A small ResNet is trained for some steps through the C API, then written as ONNX to memory and to a
file, with and without batch norm folded, for each kind of input. onnxruntime gives the logits that
gsm_model_forward_u8 computes with the same weights, and onnx's own checker accepts the graph.

Exits with 77 (ctest: skipped) and the reason when a package is missing.
"""

import ctypes
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing} (wanted: numpy, onnx, onnxruntime)")
    sys.exit(77)

GSM = ctypes.CDLL(sys.argv[1])
GSM.gsm_last_error.restype = ctypes.c_char_p
SIZE, CLASSES = 32, 10
MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32)  # usual for CIFAR's models
STD = np.array([0.2023, 0.1994, 0.2010], np.float32)


class OnnxOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("input", ctypes.c_char_p),
        ("keep_batch_norm", ctypes.c_int32),
    ]


def must(status):
    assert status == 0, GSM.gsm_last_error().decode()


def handle(call, *arguments):
    made = ctypes.c_void_p()
    must(call(*arguments, ctypes.byref(made)))
    return made


def bytes_of(made):
    data, size = ctypes.c_void_p(), ctypes.c_size_t()
    must(GSM.gsm_bytes_data(made, ctypes.byref(data), ctypes.byref(size)))
    out = ctypes.string_at(data, size.value)
    must(GSM.gsm_bytes_free(made))
    return out


def run(model, images):
    onnx.checker.check_model(onnx.load_from_string(model), full_check=True)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    meta = session.get_modelmeta()
    assert meta.producer_name == "gossamer" and meta.custom_metadata_map["image_size"] == str(SIZE)
    return session.run(["logits"], {"images": images})[0]


draws = np.random.default_rng(3)
for name in (b"resnet8-cifar", b"resnet18-cifar"):
    trainer = handle(GSM.gsm_trainer_new, name, ctypes.c_int64(CLASSES), None)
    sizes = [ctypes.c_int64(n) for n in (8, SIZE, SIZE)]
    for _ in range(3):
        pixels = draws.integers(0, 256, (8, SIZE, SIZE, 3), np.uint8)
        labels = draws.integers(0, CLASSES, 8).astype(np.int32)
        loss = ctypes.c_float()
        must(
            GSM.gsm_trainer_gradient(
                trainer,
                pixels.ctypes.data_as(ctypes.c_void_p),
                labels.ctypes.data_as(ctypes.c_void_p),
                *sizes,
                ctypes.byref(loss),
            )
        )
        must(GSM.gsm_trainer_step(trainer, ctypes.c_double(0.05)))
    weights = bytes_of(handle(GSM.gsm_trainer_save_memory, trainer, None))
    model = handle(GSM.gsm_model_open_memory, weights, ctypes.c_size_t(len(weights)))
    wanted = np.empty((8, CLASSES), np.float32)
    must(
        GSM.gsm_model_forward_u8(
            model,
            pixels.ctypes.data_as(ctypes.c_void_p),
            *sizes,
            wanted.ctypes.data_as(ctypes.c_void_p),
        )
    )
    chw = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    unit = chw.astype(np.float32) / 255
    normalized = (unit - MEAN[:, None, None]) / STD[:, None, None]
    for kind, images in ((b"normalized", normalized), (b"unit", unit), (b"bytes", chw)):
        for keep in (0, 1):
            options = OnnxOptions(ctypes.sizeof(OnnxOptions), kind, keep)
            made = bytes_of(
                handle(GSM.gsm_trainer_save_onnx_memory, trainer, None, ctypes.byref(options))
            )
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "m.onnx"
                must(
                    GSM.gsm_trainer_save_onnx(
                        trainer, str(path).encode(), None, ctypes.byref(options)
                    )
                )
                assert path.read_bytes() == made
            error = np.linalg.norm(run(made, images) - wanted) / np.linalg.norm(wanted)
            print(f"{name.decode()}, {kind.decode()}, keep {keep}: relative difference {error:.1e}")
            assert error < 1e-4
    must(GSM.gsm_model_free(model))
    must(GSM.gsm_trainer_free(trainer))
print("passed")
