# The smallest consumer: says what is on a picture, by ctypes.
#   classify.py LIBRARY MODEL PICTURE
import ctypes
import sys


class Class(ctypes.Structure):
    _fields_ = [("index", ctypes.c_int64), ("probability", ctypes.c_float)]


gsm = ctypes.CDLL(sys.argv[1])
gsm.gsm_last_error.restype = ctypes.c_char_p


def must(status):
    if status:
        sys.exit(gsm.gsm_last_error().decode())


model = ctypes.c_void_p()
must(gsm.gsm_model_open(sys.argv[2].encode(), ctypes.byref(model)))
classes, count = (Class * 3)(), ctypes.c_int32(3)
must(gsm.gsm_model_classify_file(model, sys.argv[3].encode(), classes, ctypes.byref(count)))
for c in classes[:count.value]:
    name = ctypes.c_char_p()
    must(gsm.gsm_model_class_name(model, ctypes.c_int64(c.index), ctypes.byref(name)))
    print("%5.1f %%  %s" % (100 * c.probability, name.value.decode()))
must(gsm.gsm_model_free(model))
