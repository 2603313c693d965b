// `gossamer data index PATH...`: writes the index of tars and TFRecords beside them, so that the
// next start does not read them.
#include <algorithm>
#include <exception>
#include <string_view>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/formats/index_file.h"
#include "gossamer/data/formats/packed.h"

namespace gossamer::apps {

namespace {

// The containers of both parts, each once. A folder may have shards of one part alone; DataError if
// it has none of either.
std::vector<data::Container> containers_of(const std::vector<std::string>& paths) {
  std::vector<data::Container> all;
  std::exception_ptr refused;
  for (const data::Part part : {data::Part::train, data::Part::val}) {
    try {
      for (const data::Container& found : data::find_containers(paths, part).found)
        if (std::ranges::find(all, found.path, &data::Container::path) == all.end())
          all.push_back(found);
    } catch (const DataError& error) {
      if (!std::string_view(error.what()).starts_with(data::code::not_understood)) throw;
      refused = std::current_exception();
    }
  }
  if (refused && all.empty()) std::rethrow_exception(refused);
  return all;
}

}  // namespace

int data_index(const DataIndexCommand& command) {
  std::vector<data::Container> files = containers_of(command.paths);
  // Folders of images and packed shards need no index.
  auto others = std::erase_if(files, [](const data::Container& found) {
    return found.folder || has_ending(found.path, {data::kPackEnding});
  });
  DataProgress progress("index", static_cast<i64>(files.size()), command.json);
  i64 images = 0, done = 0;
  std::size_t bytes = 0;
  for (const data::Container& file : files) {
    if (!progress(done)) return stopped_code();
    const data::Index index = data::read_container(file);
    if (index.wrapping == data::Wrapping::file) {  // a list of pictures in files of their own
      ++others;
      continue;
    }
    images += index.size();
    bytes += data::store_index(index);
    ++done;
  }
  if (command.json) {
    print(fmt::format("{}\n", JsonObject()
                                  .add("files", done)
                                  .add("images", images)
                                  .add("index_bytes", bytes)
                                  .add("seconds", progress.seconds())
                                  .str()));
  } else {
    print(fmt::format("{} with {} indexed in {:.2f} s: {:.1f} MB as FILE{}\n",
                      counted(done, "file"), counted(images, "image"), progress.seconds(),
                      static_cast<double>(bytes) / 1e6, data::kIndexEnding));
    if (done == 0 && others > 0) print("folders of images and packed shards need no index\n");
  }
  return 0;
}

}  // namespace gossamer::apps
