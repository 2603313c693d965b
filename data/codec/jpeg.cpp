// JPEG by libjpeg-turbo, through its libjpeg interface, because only that one can skip lines and
// columns. The library's Huffman decoder takes two thirds of the time; for baseline files with one
// scan, as nearly all are, ours stands in its place (jpeg_huffman.h).
#include <algorithm>
#include <cstring>
#include <span>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/format_reader.h"
#include "gossamer/data/codec/jpeg_huffman.h"
#include "gossamer/data/codec/jpeg_library.h"
#include "gossamer/data/codec/jpeg_measure.h"
#include "gossamer/data/codec/limits.h"

// The stages of the library can be replaced, but the header for it isn't installed everywhere
// (Debian and Fedora have it).
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && __has_include(<jpegint.h>)
#define GOSSAMER_JPEG_STAGES 1
#include <jpegint.h>
#endif

namespace gossamer::data {
namespace {

// The cost of a file (kMaxWork): `all`, and `scan` for each scan, which is a pass over the picture.
// The cost of Huffman codes is proportional to their bits. With arithmetic coding a coefficient may
// need thirty decisions that take almost no bits, in each scan.
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

// The library's object is made again for each picture. Otherwise it would keep the tables of the
// picture before, and could decode a damaged file that has none.
class JpegReader final : public FormatReader {
 public:
  explicit JpegReader(JpegHuffman huffman) : choice_(huffman) {
    errors_.attach();
    c_.err = &errors_.base;
    progress_.progress_monitor = [](j_common_ptr common) {
      if (common->is_decompressor) static_cast<JpegReader*>(common->client_data)->count_scans();
    };
  }
  ~JpegReader() override {
    guarded(errors_, [&] { jpeg_destroy_decompress(&c_); });
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  ImageSize open(std::span<const std::byte>, const std::string& name) override;
  void start(Box) override;
  bool next(Rows&) override;

  // Instead of start() and next(): see jpeg_measure.h.
  void read_coefficients();
  void skim(Box);

 private:
  // f calls the library and may leave by longjmp: it has no C++ objects of its own.
  template <class F>
  void run(F&& f) {
    if (guarded(errors_, f)) return;
    guarded(errors_, [&] { jpeg_abort_decompress(&c_); });
    fail<DataError>(name_, ": damaged JPEG: ", errors_.text);
  }
  void start_pixels();
  int crop_columns(Box);
  JSAMPLE* rows_in_cache(std::size_t bytes);
  void count_scans();

  // our Huffman decoder in the library's place
  void take_over();
  bool skim_ours(Box);
  static boolean decode_mcu(j_decompress_ptr, JBLOCKROW* blocks);
  void reach(std::size_t mcu);
  void warn();

  JpegHuffman choice_;
  jpeg_decompress_struct c_{};
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
  std::string name_;
  ImageSize size_;
  int max_scans_ = 0;

  // the rows of a box
  static constexpr int kBlock = 4;  // rows that next() gives at once
  Box box_;
  int row_ = 0, skip_ = 0;  // next row of the box; columns before it that are decoded as well
  std::size_t stride_ = 0;
  JSAMPLE* rows_ = nullptr;
  std::vector<JSAMPLE> lines_;

  HuffmanDecoder huffman_;
  std::vector<HuffmanDecoder::Block> mcu_;
  std::size_t part_ = 0, mcus_of_part_ = 0, mcus_ = 0;
  // the MCU that the library asks for next, and the one that our decoder reads next
  std::size_t asked_ = 0, position_ = 0;
};

#ifdef GOSSAMER_JPEG_STAGES

// Puts our Huffman decoder in the place of the library's, if it can read the file.
void JpegReader::take_over() {
  if (c_.progressive_mode || c_.arith_code || c_.data_precision != 8 ||
      jpeg_has_multiple_scans(&c_))
    return;
  mcus_ = static_cast<std::size_t>(c_.MCUs_per_row) * c_.MCU_rows_in_scan;
  mcus_of_part_ = c_.restart_interval ? c_.restart_interval : mcus_;
  for (int i = 0; i < c_.comps_in_scan; ++i) {
    const jpeg_component_info& component = *c_.cur_comp_info[i];
    const JHUFF_TBL *dc = c_.dc_huff_tbl_ptrs[component.dc_tbl_no],
                    *ac = c_.ac_huff_tbl_ptrs[component.ac_tbl_no];
    bool first_dc = true, first_ac = true;  // components share tables
    for (int j = 0; j < i; ++j) {
      first_dc = first_dc && c_.cur_comp_info[j]->dc_tbl_no != component.dc_tbl_no;
      first_ac = first_ac && c_.cur_comp_info[j]->ac_tbl_no != component.ac_tbl_no;
    }
    if (!dc || !ac ||
        (first_dc && !huffman_.dc[component.dc_tbl_no].assign(dc->bits, dc->huffval)) ||
        (first_ac && !huffman_.ac[component.ac_tbl_no].assign(ac->bits, ac->huffval)))
      return;
  }
  mcu_.clear();
  for (int i = 0; i < c_.blocks_in_MCU; ++i) {
    const jpeg_component_info& component = *c_.cur_comp_info[c_.MCU_membership[i]];
    mcu_.push_back({static_cast<std::uint8_t>(c_.MCU_membership[i]),
                    static_cast<std::uint8_t>(component.dc_tbl_no),
                    static_cast<std::uint8_t>(component.ac_tbl_no)});
  }
  const std::size_t parts = (mcus_ + mcus_of_part_ - 1) / mcus_of_part_;
  // else the library decodes, and repairs what it can
  if (!huffman_.start({c_.src->next_input_byte, c_.src->bytes_in_buffer}, parts)) return;
  part_ = asked_ = position_ = 0;
  c_.entropy->decode_mcu = decode_mcu;
}

void JpegReader::warn() {
  if (!huffman_.at_end())
    WARNMS(&c_, JWRN_HUFF_BAD_CODE);
  else if (huffman_.coded().ends_with_marker())
    WARNMS(&c_, JWRN_HIT_MARKER);
  else
    WARNMS(&c_, JWRN_JPEG_EOF);
}

// Moves on to an MCU: reads only the code lengths of the MCUs before it, and skips the parts
// between restart markers before its own.
void JpegReader::reach(std::size_t mcu) {
  if (const std::size_t part = mcu / mcus_of_part_; part != part_) {
    huffman_.go_to(part);
    part_ = part;
    position_ = part * mcus_of_part_;
  }
  for (; position_ < mcu; ++position_)
    if (!huffman_.skip(mcu_)) warn();
}

// MCUs that are not wanted are skipped later, when one after them is wanted.
boolean JpegReader::decode_mcu(j_decompress_ptr c, JBLOCKROW* blocks) {
  auto& d = *static_cast<JpegReader*>(c->client_data);
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

bool JpegReader::skim_ours(Box box) {
  if (c_.entropy->decode_mcu != decode_mcu) return false;
  alignas(64) JBLOCK memory[D_MAX_BLOCKS_IN_MCU];
  JBLOCKROW blocks[D_MAX_BLOCKS_IN_MCU];
  for (int i = 0; i < D_MAX_BLOCKS_IN_MCU; ++i) blocks[i] = &memory[i];
  // lines of a row of MCUs, rounded up
  const JDIMENSION lines = (c_.image_height + c_.MCU_rows_in_scan - 1) / c_.MCU_rows_in_scan;
  const JDIMENSION above = static_cast<JDIMENSION>(box.y) / lines,
                   rows = std::min(c_.MCU_rows_in_scan,
                                   static_cast<JDIMENSION>(box.y + box.height) / lines + 1);
  for (JDIMENSION y = 0; y < rows; ++y)
    for (JDIMENSION x = 0; x < c_.MCUs_per_row; ++x) {
      std::memset(memory, 0, static_cast<std::size_t>(c_.blocks_in_MCU) * sizeof(JBLOCK));
      c_.entropy->decode_mcu(&c_, y < above ? nullptr : blocks);
    }
  return true;
}

#else
void JpegReader::take_over() {}
bool JpegReader::skim_ours(Box) { return false; }
#endif

// CMYK is stored inverted (255: no ink), as Adobe does. The arithmetic is Pillow's.
void cmyk_to_rgb(const JSAMPLE* from, int count, std::uint8_t* to) {
  for (int i = 0; i < count; ++i, from += 4, to += 3) {
    const int k = from[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - from[channel]) * k + 128;
      to[channel] = static_cast<std::uint8_t>(std::max(0, k - (((product >> 8) + product) >> 8)));
    }
  }
}

// Whether there is an end marker after the header. Inside coded data, FF is always followed by 00
// or a restart marker, so a file that was cut has none.
bool has_end(const unsigned char* at, std::size_t left) {
  for (; left >= 2; --left)
    if (at[left - 2] == 0xFF && at[left - 1] == 0xD9) return true;
  return false;
}

ImageSize JpegReader::open(std::span<const std::byte> bytes, const std::string& name) {
  name_ = name;
  run([&] {
    jpeg_destroy_decompress(&c_);  // does nothing the first time
    jpeg_create_decompress(&c_);   // keeps c_.err
    c_.client_data = this;
    c_.progress = &progress_;
    // for the coefficients of progressive files
    // NOLINTNEXTLINE(google-runtime-int): the library's type
    c_.mem->max_memory_to_use = static_cast<long>(kMaxMemory);
    jpeg_mem_src(&c_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    if (jpeg_read_header(&c_, TRUE) != JPEG_HEADER_OK) ERREXIT(&c_, JERR_NO_IMAGE);
  });
  size_ = {static_cast<int>(c_.image_width), static_cast<int>(c_.image_height)};
  check_size(size_, name);
  check<DataError>(c_.num_components == 1 || c_.num_components == 3 || c_.num_components == 4, name,
                   ": JPEG with ", c_.num_components,
                   " colour components; 1 (gray), 3 (colour) and 4 (CMYK) are understood");
  constexpr int usual = 10, most = 100;  // scans of progressive files
  const JpegWork work = work_of(c_, bytes.size());
  check_work(work.all + work.scan * (c_.progressive_mode ? usual : 1), size_, bytes.size(), name,
             c_.arith_code         ? "a JPEG with arithmetic coding"
             : c_.progressive_mode ? "a progressive JPEG"
                                   : "a JPEG");
  max_scans_ = static_cast<int>(std::min<i64>((kMaxWork - work.all) / work.scan, most));
  return size_;
}

void JpegReader::count_scans() {
  if (c_.input_scan_number <= max_scans_) return;
  std::snprintf(errors_.text, sizeof errors_.text, "more than %d scans for %u x %u pixels",
                max_scans_, c_.image_width, c_.image_height);
  std::longjmp(errors_.jump, 1);
}

// Starts decoding to 8-bit RGB (or CMYK), as exactly as the library can.
void JpegReader::start_pixels() {
  run([&] {
    c_.out_color_space = c_.num_components == 4 ? JCS_CMYK : JCS_RGB;
    c_.dct_method = JDCT_ISLOW;
    c_.do_fancy_upsampling = TRUE;
    if (!jpeg_start_decompress(&c_)) ERREXIT(&c_, JERR_INPUT_EOF);
  });
  if (choice_ == JpegHuffman::ours) take_over();
}

// Chooses the columns to decode and returns the first. They reach one chroma sample beyond the box
// on each side, because chroma is interpolated from its neighbours and differently at an edge. In a
// progressive file, missing coefficients are guessed from two blocks on each side. Inside run().
int JpegReader::crop_columns(Box box) {
  const int around = (c_.progressive_mode ? 2 * DCTSIZE + 1 : 1) * c_.max_h_samp_factor;
  JDIMENSION left = static_cast<JDIMENSION>(std::max(0, box.x - around));
  JDIMENSION width =
      std::min(c_.image_width, static_cast<JDIMENSION>(box.x + box.width + around)) - left;
  if (width == c_.output_width) return 0;
  jpeg_crop_scanline(&c_, &left, &width);
  return static_cast<int>(left);
}

// Memory for output rows, with a stride that is a multiple of 64. Rows must not begin at a multiple
// of 32 (AVX2; 16 with SSE2): there libjpeg-turbo writes with non-temporal stores, past the caches,
// and reading the rows back from memory took up to 40 % of the time.
JSAMPLE* JpegReader::rows_in_cache(std::size_t bytes) {
  lines_.resize(bytes + 64 + 8);
  const auto begin = reinterpret_cast<std::uintptr_t>(lines_.data());
  return lines_.data() + ((begin + 63) / 64 * 64 - begin) + 8;
}

void JpegReader::start(Box box) {
  check<DataError>(box.y + box.height == size_.height ||
                       has_end(c_.src->next_input_byte, c_.src->bytes_in_buffer),
                   name_, ": damaged JPEG: it ends early (no end marker)");
  box_ = box;
  row_ = 0;
  const std::size_t channels = c_.num_components == 4 ? 4 : 3;
  stride_ = (static_cast<std::size_t>(size_.width) * channels + 127) / 64 * 64;
  rows_ = rows_in_cache(kBlock * stride_);
  start_pixels();
  run([&] {
    skip_ = box_.x - crop_columns(box_);
    const auto above = static_cast<JDIMENSION>(box_.y);
    if (above > 0 && jpeg_skip_scanlines(&c_, above) != above) ERREXIT(&c_, JERR_INPUT_EOF);
  });
}

bool JpegReader::next(Rows& rows) {
  const int count = std::min(kBlock, box_.height - row_);
  if (count == 0) {
    run([&] {
      if (box_.y + box_.height < size_.height)
        jpeg_abort_decompress(&c_);
      else if (!jpeg_finish_decompress(&c_))
        ERREXIT(&c_, JERR_INPUT_EOF);
    });
    return false;
  }
  run([&] {
    for (int i = 0; i < count; ++i) {
      JSAMPROW row = rows_ + static_cast<std::size_t>(i) * stride_;
      if (jpeg_read_scanlines(&c_, &row, 1) != 1) ERREXIT(&c_, JERR_INPUT_EOF);
      if (c_.num_components == 4) cmyk_to_rgb(row + skip_ * 4, box_.width, row + skip_ * 3);
    }
  });
  row_ += count;
  rows = {rows_ + skip_ * 3, stride_, count, rows_ + kBlock * stride_};
  return true;
}

void JpegReader::read_coefficients() {
  run([&] {
    if (!jpeg_read_coefficients(&c_)) ERREXIT(&c_, JERR_INPUT_EOF);
    jpeg_abort_decompress(&c_);
  });
}

void JpegReader::skim(Box box) {
  start_pixels();
  run([&] {
    crop_columns(box);
    if (!skim_ours(box))
      jpeg_skip_scanlines(&c_,
                          static_cast<JDIMENSION>(std::min(box.y + box.height, size_.height - 1)));
    jpeg_abort_decompress(&c_);
  });
}

JpegReader& reader_of_this_thread() {
  thread_local JpegReader reader(JpegHuffman::ours);
  return reader;
}

}  // namespace

std::unique_ptr<FormatReader> jpeg_reader(JpegHuffman huffman) {
  return std::make_unique<JpegReader>(huffman);
}

void read_coefficients(std::span<const std::byte> bytes, const std::string& name) {
  reader_of_this_thread().open(bytes, name);
  reader_of_this_thread().read_coefficients();
}

void skim_jpeg(std::span<const std::byte> bytes, const std::string& name, Box box) {
  check_box(box, reader_of_this_thread().open(bytes, name), name);
  reader_of_this_thread().skim(box);
}

}  // namespace gossamer::data
