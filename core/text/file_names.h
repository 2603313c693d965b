// What the names of files and folders say.
// Threads: any.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace gossamer {

// A to Z become lower case; other bytes stay.
std::string lower_case(std::string_view);
// Whether the name ends with one of these, which are given in lower case. The name may be in upper
// case: a.JPG.
bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings);

// Whether a path holds a file or folder that no user put there as data: a name that begins with a
// dot (.DS_Store, ._a.jpg, .ipynb_checkpoints), __MACOSX (zip), @eaDir (Synology), lost+found. Not
// "." and "..".
bool is_hidden(std::string_view path);

}  // namespace gossamer
