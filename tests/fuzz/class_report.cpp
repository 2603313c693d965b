// libFuzzer: classes.json of a run, through its reader and the part of a page that is made of it.
// What is accepted is written and read back alike.
//
// sources: class_report class_results html nesting
// sources: safetensors safetensors_write core/tensor shape memory parallel autograd op_update
// sources: op_copy
// sources: flat cuda_none op_blocks input_file free_memory printable utf8 xxh3 cores least_cpu
// libraries: -lfmt
#include "gossamer/apps/report/class_report.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::apps;
  const ClassReport report =
      parse_class_report(std::string(reinterpret_cast<const char*>(data), size));
  const std::string page = class_report_html(report);
  if (page.find("<script") != std::string::npos) std::abort();
  if (class_report_html(parse_class_report(class_report_json(report))) != page) std::abort();
  return 0;
}
