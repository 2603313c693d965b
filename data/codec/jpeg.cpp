// JPEG on libjpeg-turbo's libjpeg face, which alone can skip lines and columns. Of its stages the
// Huffman decoder, two thirds of the time, is replaced by ours (jpeg_huffman.h) where that can be
// done: in baseline files with one scan, as nearly all are.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/codec.h"
#include "gossamer/data/codec/jpeg_huffman.h"
#include "gossamer/data/codec/jpeg_library.h"

// The stages of the library are meant to be exchanged, but their header isn't installed everywhere
// (Debian and Fedora have it).
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && __has_include(<jpegint.h>)
#define GOSSAMER_JPEG_STAGES 1
#include <jpegint.h>
#endif

namespace gossamer::data {
namespace {

// What a file costs (kMaxWork), besides its scans, each of which is a pass over the picture.
// Huffman codes cost what their bits do. Arithmetic coding can make a coefficient of thirty
// decisions that take next to no bits, and that in each scan.
struct JpegWork {
  i64 all, scan;
};
JpegWork work_of(const jpeg_decompress_struct& c, std::size_t file) {
  const i64 pixels = i64{c.image_width} * c.image_height, bytes = static_cast<i64>(file);
  i64 samples = 0;
  for (int i = 0; i < c.num_components; ++i)
    samples += pixels * c.comp_info[i].h_samp_factor * c.comp_info[i].v_samp_factor /
               (c.max_h_samp_factor * c.max_v_samp_factor);
  if (c.arith_code) return {180 * bytes, 130 * samples + 1};
  return {c.progressive_mode ? 4 * samples + 44 * bytes : 2 * samples + 10 * bytes, pixels / 2 + 1};
}

// One per thread. The library's object is made anew for each picture: it would keep the tables of
// the one before, and a damaged file without tables would decode or not depending on what its
// thread had met earlier.
class Decompressor {
 public:
  Decompressor() {
    errors.attach();
    c.err = &errors.base;
    progress.progress_monitor = [](j_common_ptr common) {
      if (common->is_decompressor) static_cast<Decompressor*>(common->client_data)->count_scans();
    };
  }
  ~Decompressor() {
    guarded(errors, [&] { jpeg_destroy_decompress(&c); });
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  template <class F>
  void run(const std::string& name, F&& f) {
    if (guarded(errors, f)) return;
    guarded(errors, [&] { jpeg_abort_decompress(&c); });
    fail<DataError>(name, ": damaged JPEG: ", errors.text);
  }

  ImageSize header(std::span<const std::byte> bytes, const std::string& name) {
    run(name, [&] {
      jpeg_destroy_decompress(&c);  // does nothing the first time
      jpeg_create_decompress(&c);   // keeps c.err and c.client_data
      c.client_data = this;
      c.progress = &progress;
      // NOLINT(google-runtime-int); for coefficients of progressive files
      c.mem->max_memory_to_use = static_cast<long>(kMaxMemory);
      jpeg_mem_src(&c, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      if (jpeg_read_header(&c, TRUE) != JPEG_HEADER_OK) ERREXIT(&c, JERR_NO_IMAGE);
    });
    const ImageSize size{static_cast<int>(c.image_width), static_cast<int>(c.image_height)};
    check_size(size, name);
    check<DataError>(c.num_components == 1 || c.num_components == 3 || c.num_components == 4, name,
                     ": JPEG with ", c.num_components,
                     " colour components; 1 (gray), 3 (colour) and 4 (CMYK) are understood");
    constexpr int usual = 10, most = 100;  // scans of progressive files
    const JpegWork work = work_of(c, bytes.size());
    check_work(work.all + work.scan * (c.progressive_mode ? usual : 1), size, bytes.size(), name,
               c.arith_code         ? "a JPEG with arithmetic coding"
               : c.progressive_mode ? "a progressive JPEG"
                                    : "a JPEG");
    max_scans_ = static_cast<int>(std::min<i64>((kMaxWork - work.all) / work.scan, most));
    return size;
  }

  // After header(): to 8-bit RGB (or CMYK), as exact as the library can.
  void start(const std::string& name, JpegStages stages) {
    run(name, [&] {
      c.out_color_space = c.num_components == 4 ? JCS_CMYK : JCS_RGB;
      c.dct_method = JDCT_ISLOW;
      c.do_fancy_upsampling = TRUE;
      if (!jpeg_start_decompress(&c)) ERREXIT(&c, JERR_INPUT_EOF);
    });
    if (stages == JpegStages::ours) take_over();
  }

  // The columns that will be read, those of a chroma sample more than the box to each side: chroma
  // is interpolated from its neighbours and treated otherwise at an edge. Where a progressive file
  // lacks coefficients they are guessed from two blocks to each side. Returns the first column.
  // Inside run().
  int crop_columns(Box box) {
    const int around = (c.progressive_mode ? 2 * DCTSIZE + 1 : 1) * c.max_h_samp_factor;
    JDIMENSION left = static_cast<JDIMENSION>(std::max(0, box.x - around));
    JDIMENSION width =
        std::min(c.image_width, static_cast<JDIMENSION>(box.x + box.width + around)) - left;
    if (width == c.output_width) return 0;
    jpeg_crop_scanline(&c, &left, &width);
    return static_cast<int>(left);
  }

  // Memory for output rows whose stride is a multiple of 64. To rows that begin at a multiple of 32
  // (AVX2; of 16: SSE2) libjpeg-turbo writes with non-temporal stores, which bypass the caches;
  // reading those rows back from memory, as all here do at once, took up to 40 % of the time.
  JSAMPLE* rows_in_cache(std::size_t bytes) {
    lines_.resize(bytes + 64 + 8);
    const auto begin = reinterpret_cast<std::uintptr_t>(lines_.data());
    return lines_.data() + ((begin + 63) / 64 * 64 - begin) + 8;
  }

  void take_over();
  bool skim_ours(Box box);

  jpeg_decompress_struct c{};
  JpegErrors errors{};
  jpeg_progress_mgr progress{};

 private:
  void count_scans() {
    if (c.input_scan_number <= max_scans_) return;
    std::snprintf(errors.text, sizeof errors.text, "more than %d scans for %u x %u pixels",
                  max_scans_, c.image_width, c.image_height);
    std::longjmp(errors.jump, 1);
  }
  static boolean decode_mcu(j_decompress_ptr c, JBLOCKROW* blocks);
  void reach(std::size_t mcu);
  void warn();

  int max_scans_ = 0;
  std::vector<JSAMPLE> lines_;
  HuffmanDecoder huffman_;
  std::vector<HuffmanDecoder::Block> mcu_;
  std::size_t part_ = 0, mcus_of_part_ = 0, mcus_ = 0;
  // the MCU that the library asks for next, and the one that the decoder stands at
  std::size_t asked_ = 0, position_ = 0;
};

#ifdef GOSSAMER_JPEG_STAGES

// Puts our Huffman decoder in the place of the library's, if it can read the file.
void Decompressor::take_over() {
  if (c.progressive_mode || c.arith_code || c.data_precision != 8 || jpeg_has_multiple_scans(&c))
    return;
  mcus_ = static_cast<std::size_t>(c.MCUs_per_row) * c.MCU_rows_in_scan;
  mcus_of_part_ = c.restart_interval ? c.restart_interval : mcus_;
  for (int i = 0; i < c.comps_in_scan; ++i) {
    const jpeg_component_info& component = *c.cur_comp_info[i];
    const JHUFF_TBL *dc = c.dc_huff_tbl_ptrs[component.dc_tbl_no],
                    *ac = c.ac_huff_tbl_ptrs[component.ac_tbl_no];
    bool first_dc = true, first_ac = true;  // components share tables
    for (int j = 0; j < i; ++j) {
      first_dc = first_dc && c.cur_comp_info[j]->dc_tbl_no != component.dc_tbl_no;
      first_ac = first_ac && c.cur_comp_info[j]->ac_tbl_no != component.ac_tbl_no;
    }
    if (!dc || !ac ||
        (first_dc && !huffman_.dc[component.dc_tbl_no].assign(dc->bits, dc->huffval)) ||
        (first_ac && !huffman_.ac[component.ac_tbl_no].assign(ac->bits, ac->huffval)))
      return;
  }
  mcu_.clear();
  for (int i = 0; i < c.blocks_in_MCU; ++i) {
    const jpeg_component_info& component = *c.cur_comp_info[c.MCU_membership[i]];
    mcu_.push_back({static_cast<std::uint8_t>(c.MCU_membership[i]),
                    static_cast<std::uint8_t>(component.dc_tbl_no),
                    static_cast<std::uint8_t>(component.ac_tbl_no)});
  }
  const std::size_t parts = (mcus_ + mcus_of_part_ - 1) / mcus_of_part_;
  // the library tries to save what it can
  if (!huffman_.start({c.src->next_input_byte, c.src->bytes_in_buffer}, parts)) return;
  part_ = asked_ = position_ = 0;
  c.entropy->decode_mcu = decode_mcu;
}

void Decompressor::warn() {
  if (!huffman_.at_end())
    WARNMS(&c, JWRN_HUFF_BAD_CODE);
  else if (huffman_.coded().ends_with_marker())
    WARNMS(&c, JWRN_HIT_MARKER);
  else
    WARNMS(&c, JWRN_JPEG_EOF);
}

// Goes on to an MCU. Of those before it only the lengths of the codes matter; of the parts before
// its own, nothing.
void Decompressor::reach(std::size_t mcu) {
  if (const std::size_t part = mcu / mcus_of_part_; part != part_) {
    huffman_.go_to(part);
    part_ = part;
    position_ = part * mcus_of_part_;
  }
  for (; position_ < mcu; ++position_)
    if (!huffman_.skip(mcu_)) warn();
}

// What nobody wants is passed over when something behind it is wanted.
boolean Decompressor::decode_mcu(j_decompress_ptr c, JBLOCKROW* blocks) {
  auto& d = *static_cast<Decompressor*>(c->client_data);
  const std::size_t mcu = d.asked_++, column = mcu % c->MCUs_per_row;
  const bool wanted = blocks && column >= c->master->first_iMCU_col &&
                      column <= c->master->last_iMCU_col,
             last = mcu + 1 == d.mcus_;
  if (!wanted && !last) return TRUE;
  d.reach(mcu);
  if (!(wanted ? d.huffman_.decode(d.mcu_, blocks) : d.huffman_.skip(d.mcu_))) d.warn();
  ++d.position_;
  if (last) {  // the library goes on with what follows the scan
    CodedBytes& coded = d.huffman_.coded();
    coded.finish();
    c->src->bytes_in_buffer -= static_cast<std::size_t>(coded.next() - c->src->next_input_byte);
    c->src->next_input_byte = coded.next();
    c->unread_marker = coded.marker();
  }
  return TRUE;
}

bool Decompressor::skim_ours(Box box) {
  if (c.entropy->decode_mcu != decode_mcu) return false;
  alignas(64) JBLOCK memory[D_MAX_BLOCKS_IN_MCU];
  JBLOCKROW blocks[D_MAX_BLOCKS_IN_MCU];
  for (int i = 0; i < D_MAX_BLOCKS_IN_MCU; ++i) blocks[i] = &memory[i];
  // nearly: of one row of MCUs
  const JDIMENSION lines = (c.image_height + c.MCU_rows_in_scan - 1) / c.MCU_rows_in_scan;
  const JDIMENSION above = static_cast<JDIMENSION>(box.y) / lines,
                   rows = std::min(c.MCU_rows_in_scan,
                                   static_cast<JDIMENSION>(box.y + box.height) / lines + 1);
  for (JDIMENSION y = 0; y < rows; ++y)
    for (JDIMENSION x = 0; x < c.MCUs_per_row; ++x) {
      std::memset(memory, 0, static_cast<std::size_t>(c.blocks_in_MCU) * sizeof(JBLOCK));
      c.entropy->decode_mcu(&c, y < above ? nullptr : blocks);
    }
  return true;
}

#else
void Decompressor::take_over() {}
bool Decompressor::skim_ours(Box) { return false; }
#endif

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

// Whether an end marker follows the header. Inside coded data FF is always followed by 00 or a
// restart, so a cut file has none.
bool has_end(const unsigned char* at, std::size_t left) {
  for (; left >= 2; --left)
    if (at[left - 2] == 0xFF && at[left - 1] == 0xD9) return true;
  return false;
}

}  // namespace

ImageSize probe_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  return decompressor().header(bytes, name);
}

ImageSize decode_jpeg_rows(std::span<const std::byte> bytes, const std::string& name, PickBox pick,
                           RowSink sink, JpegStages stages) {
  Decompressor& d = decompressor();
  jpeg_decompress_struct& c = d.c;
  const ImageSize size = d.header(bytes, name);
  const Box box = pick(size);
  check_box(box, size, name);
  const bool to_the_end = box.y + box.height == size.height;
  check<DataError>(to_the_end || has_end(c.src->next_input_byte, c.src->bytes_in_buffer), name,
                   ": damaged JPEG: it ends early (no end marker)");
  const bool four = c.num_components == 4;
  constexpr int block = 4;  // rows that are passed on together
  const std::size_t stride =
      (static_cast<std::size_t>(size.width) * (four ? 4 : 3) + 127) / 64 * 64;
  JSAMPLE* const lines = d.rows_in_cache(block * stride);

  d.start(name, stages);
  d.run(name, [&] {
    const int skip = box.x - d.crop_columns(box);
    if (box.y > 0 &&
        jpeg_skip_scanlines(&c, static_cast<JDIMENSION>(box.y)) != static_cast<JDIMENSION>(box.y))
      ERREXIT(&c, JERR_INPUT_EOF);
    for (int y = 0; y < box.height; y += block) {
      const int count = std::min(block, box.height - y);
      for (int i = 0; i < count; ++i) {
        JSAMPROW row = lines + static_cast<std::size_t>(i) * stride;
        if (jpeg_read_scanlines(&c, &row, 1) != 1) ERREXIT(&c, JERR_INPUT_EOF);
        if (four) cmyk_to_rgb(row + skip * 4, box.width, row + skip * 3);
      }
      sink({lines + skip * 3, stride, count, lines + block * stride});
    }
    if (to_the_end) {
      if (!jpeg_finish_decompress(&c)) ERREXIT(&c, JERR_INPUT_EOF);
    } else {
      jpeg_abort_decompress(&c);
    }
  });
  return size;
}

void read_coefficients(std::span<const std::byte> bytes, const std::string& name) {
  Decompressor& d = decompressor();
  d.header(bytes, name);
  d.run(name, [&] {
    if (!jpeg_read_coefficients(&d.c)) ERREXIT(&d.c, JERR_INPUT_EOF);
    jpeg_abort_decompress(&d.c);
  });
}

void skim_jpeg(std::span<const std::byte> bytes, const std::string& name, PickBox pick) {
  Decompressor& d = decompressor();
  const ImageSize size = d.header(bytes, name);
  const Box box = pick(size);
  check_box(box, size, name);
  d.start(name, JpegStages::ours);
  d.run(name, [&] {
    d.crop_columns(box);
    if (!d.skim_ours(box))
      jpeg_skip_scanlines(&d.c,
                          static_cast<JDIMENSION>(std::min(box.y + box.height, size.height - 1)));
    jpeg_abort_decompress(&d.c);
  });
}

}  // namespace gossamer::data
