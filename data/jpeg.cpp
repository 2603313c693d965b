// JPEG on libjpeg-turbo's libjpeg face, which alone can skip lines and columns. Its errors arrive by longjmp, so everything that
// calls the library runs inside guarded(), without C++ objects of its own on the stack.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>   // wants cstdio first
#include <jerror.h>

#include "gossamer/core/error.h"
#include "gossamer/data/codec.h"

namespace gossamer::data {
namespace {

struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr c) {
  auto* errors = reinterpret_cast<Errors*>(c->err);
  c->err->format_message(c, errors->text);
  std::longjmp(errors->jump, 1);
}

// Warnings mean lost data and make the picture a defect, but for those that real, whole files cause.
void warn(j_common_ptr c, int level) {
  if (level >= 0) return;
  switch (c->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:     // bytes between two markers; a few ImageNet files have them
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC: return;
    default: leave(c);
  }
}

void silent(j_common_ptr) {}

void count_scans(j_common_ptr c) {
  if (!c->is_decompressor) return;
  const auto* d = reinterpret_cast<j_decompress_ptr>(c);
  const int most = max_scans({static_cast<int>(d->image_width), static_cast<int>(d->image_height)});
  if (d->input_scan_number <= most) return;
  auto* errors = reinterpret_cast<Errors*>(c->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d progressive scans for %u x %u pixels", most, d->image_width, d->image_height);
  std::longjmp(errors->jump, 1);
}

void init_errors(Errors& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.emit_message = warn;
  errors.base.output_message = silent;
  errors.text[0] = 0;
}

// False if the library gave up; the reason is in errors.text. noinline: what f changes lives in the caller's frame, which
// longjmp leaves alone.
template <class F> [[gnu::noinline]] bool guarded(Errors& errors, F&& f) {
  if (setjmp(errors.jump)) return false;
  f();
  return true;
}

// One per thread. The library's object is made anew for each picture: it would keep the tables of the one before, and a damaged
// file without tables would decode or not depending on what its thread had met earlier.
class Decompressor {
 public:
  Decompressor() {
    init_errors(errors);
    c.err = &errors.base;
    progress.progress_monitor = count_scans;
  }
  ~Decompressor() {
    guarded(errors, [&] { jpeg_destroy_decompress(&c); });
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  template <class F> void run(const std::string& name, F&& f) {
    if (guarded(errors, f)) return;
    guarded(errors, [&] { jpeg_abort_decompress(&c); });
    fail<DataError>(name, ": damaged JPEG: ", errors.text);
  }

  ImageSize header(std::span<const std::byte> bytes, const std::string& name) {
    run(name, [&] {
      jpeg_destroy_decompress(&c);          // does nothing the first time
      jpeg_create_decompress(&c);           // keeps c.err
      c.progress = &progress;
      jpeg_mem_src(&c, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      if (jpeg_read_header(&c, TRUE) != JPEG_HEADER_OK) ERREXIT(&c, JERR_NO_IMAGE);
    });
    const ImageSize size{static_cast<int>(c.image_width), static_cast<int>(c.image_height)};
    check_size(size, name);
    check<DataError>(c.num_components == 1 || c.num_components == 3 || c.num_components == 4, name, ": JPEG with ",
                     c.num_components, " colour components; 1 (gray), 3 (colour) and 4 (CMYK) are understood");
    return size;
  }

  jpeg_decompress_struct c{};
  Errors errors{};
  jpeg_progress_mgr progress{};
  std::vector<JSAMPLE> line;
};

Decompressor& decompressor() {
  thread_local Decompressor d;
  return d;
}

// Adobe writes CMYK inverted (255: no ink) and so does everyone since; the arithmetic is Pillow's.
void cmyk_to_rgb(const JSAMPLE* from, int count, std::uint8_t* to) {
  for (int i = 0; i < count; ++i, from += 4, to += 3) {
    const int k = from[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - from[channel]) * k + 128;
      to[channel] = static_cast<std::uint8_t>(std::max(0, k - (((product >> 8) + product) >> 8)));
    }
  }
}

// Whether an end marker follows the header. Inside coded data FF is always followed by 00 or a restart, so a cut file has none.
bool has_end(const unsigned char* at, std::size_t left) {
  for (; left >= 2; --left)
    if (at[left - 2] == 0xFF && at[left - 1] == 0xD9) return true;
  return false;
}

}  // namespace

ImageSize probe_jpeg(std::span<const std::byte> bytes, const std::string& name) { return decompressor().header(bytes, name); }

ImageSize decode_jpeg(std::span<const std::byte> bytes, const std::string& name, PickBox pick, Image& out) {
  Decompressor& d = decompressor();
  jpeg_decompress_struct& c = d.c;
  const ImageSize size = d.header(bytes, name);
  const Box box = pick(size);
  check_box(box, size, name);
  const bool to_the_end = box.y + box.height == size.height;
  check<DataError>(to_the_end || has_end(c.src->next_input_byte, c.src->bytes_in_buffer), name,
                   ": damaged JPEG: it ends early (no end marker)");

  const bool four = c.num_components == 4;
  out.width = box.width;
  out.height = box.height;
  out.pixels.resize(static_cast<std::size_t>(box.width) * box.height * 3);
  d.line.resize(static_cast<std::size_t>(size.width) * (four ? 4 : 3));
  std::uint8_t* const pixels = out.pixels.data();

  d.run(name, [&] {
    c.out_color_space = four ? JCS_CMYK : JCS_RGB;
    c.dct_method = JDCT_ISLOW;
    c.do_fancy_upsampling = TRUE;
    if (!jpeg_start_decompress(&c)) ERREXIT(&c, JERR_INPUT_EOF);
    // Chroma is interpolated from its neighbours and treated otherwise at an edge, so the columns decoded reach 16 beyond the box.
    JDIMENSION left = static_cast<JDIMENSION>(std::max(0, box.x - 16));
    JDIMENSION width = static_cast<JDIMENSION>(std::min(size.width, box.x + box.width + 16)) - left;
    if (width < c.output_width) jpeg_crop_scanline(&c, &left, &width);
    else left = 0;
    const int skip = box.x - static_cast<int>(left);
    const bool direct = !four && skip == 0 && static_cast<int>(c.output_width) == box.width;
    if (box.y > 0 && jpeg_skip_scanlines(&c, static_cast<JDIMENSION>(box.y)) != static_cast<JDIMENSION>(box.y))
      ERREXIT(&c, JERR_INPUT_EOF);
    for (int y = 0; y < box.height; ++y) {
      std::uint8_t* const to = pixels + static_cast<std::size_t>(y) * box.width * 3;
      JSAMPROW row = direct ? to : d.line.data();
      if (jpeg_read_scanlines(&c, &row, 1) != 1) ERREXIT(&c, JERR_INPUT_EOF);
      if (four) cmyk_to_rgb(row + skip * 4, box.width, to);
      else if (!direct) std::memcpy(to, row + skip * 3, static_cast<std::size_t>(box.width) * 3);
    }
    if (to_the_end) {
      if (!jpeg_finish_decompress(&c)) ERREXIT(&c, JERR_INPUT_EOF);
    } else {
      jpeg_abort_decompress(&c);
    }
  });
  return size;
}

std::vector<std::byte> encode_jpeg(const Image& image, JpegOptions options) {
  check<ShapeError>(image.width > 0 && image.height > 0 && image.width <= kMaxSide && image.height <= kMaxSide, "encode_jpeg: ",
                    image.width, " x ", image.height, " pixels; sides go from 1 to ", kMaxSide);
  jpeg_compress_struct c{};
  Errors errors{};
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;                   // NOLINT(google-runtime-int): the library's type
  init_errors(errors);
  c.err = &errors.base;
  const bool ok = guarded(errors, [&] {
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &memory, &bytes);
    c.image_width = static_cast<JDIMENSION>(image.width);
    c.image_height = static_cast<JDIMENSION>(image.height);
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, options.quality, TRUE);
    c.dct_method = JDCT_ISLOW;
    c.comp_info[0].h_samp_factor = options.h;
    c.comp_info[0].v_samp_factor = options.v;
    if (options.progressive) jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(image.pixels.data() + static_cast<std::size_t>(c.next_scanline) * image.width * 3);
      jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
  });
  jpeg_destroy_compress(&c);
  std::vector<std::byte> result;
  if (ok) result.assign(reinterpret_cast<std::byte*>(memory), reinterpret_cast<std::byte*>(memory) + bytes);
  std::free(memory);
  check<DataError>(ok, "encode_jpeg: ", errors.text);
  return result;
}

}  // namespace gossamer::data
