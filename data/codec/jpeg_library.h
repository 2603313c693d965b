// libjpeg for jpeg.cpp and jpeg_encode.cpp. Its errors arrive by longjmp, so every call of the
// library is made inside guarded(), by code without C++ objects of its own on the stack.
#pragma once

#include <csetjmp>
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>  // wants cstdio first

namespace gossamer::data {

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];

  void attach() {
    jpeg_std_error(&base);
    base.error_exit = leave;
    base.emit_message = warn;
    base.output_message = [](j_common_ptr) {};
    text[0] = 0;
  }

  [[noreturn]] static void leave(j_common_ptr c) {
    auto* errors = reinterpret_cast<JpegErrors*>(c->err);
    c->err->format_message(c, errors->text);
    std::longjmp(errors->jump, 1);
  }

  // A warning means lost data and is an error, except for the warnings that whole files cause.
  static void warn(j_common_ptr c, int level) {
    if (level >= 0) return;
    switch (c->err->msg_code) {
      case JWRN_EXTRANEOUS_DATA:  // bytes between two markers; a few ImageNet files have them
      case JWRN_ADOBE_XFORM:
      case JWRN_JFIF_MAJOR:
      case JWRN_BOGUS_ICC:
        return;
      default:
        leave(c);
    }
  }
};

// False if the library gave up; the reason is in errors.text. noinline: what f changes lives in the
// caller's frame, which longjmp leaves alone.
template <class F>
[[gnu::noinline]] bool guarded(JpegErrors& errors, F&& f) {
  if (setjmp(errors.jump)) return false;
  f();
  return true;
}

}  // namespace gossamer::data
