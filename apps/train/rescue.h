// Another place for what the folder of a run cannot take: a full disk, a folder that has become
// read-only or is gone.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>

namespace gossamer::apps {

// Calls write(folder) with a new folder gossamer-NAME-ID in the system's temporary folder, then in
// the current folder, then in $HOME, until one throws no IoError, and returns that folder. name: of
// the run. id: tells this run from others. Workers that save together give the same id, and
// `shared`; otherwise a folder that is there already is left alone and ID is numbered. IoError
// lists all places that were tried.
std::filesystem::path write_elsewhere(
    const std::string& name, const std::string& id, bool shared,
    const std::function<void(const std::filesystem::path&)>& write);

// Copies those of `names` that lie in `elsewhere` to `folder`. It removes nothing: `elsewhere` may
// be the folder of another run. IoError: one cannot be copied.
void bring_home(const std::filesystem::path& elsewhere, const std::filesystem::path& folder,
                std::initializer_list<const char*> names);

}  // namespace gossamer::apps
