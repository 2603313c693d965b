# Finds libraries that have no CMake files, here and where Gossamer is installed.

# gossamer_find_library(NAME FILE…): the target gossamer::NAME, if a library FILE is found. The
# cache variable NAME_LIBRARY, in capitals, says where. FILE… may end in options of find_library.
function(gossamer_find_library name)
  if(TARGET gossamer::${name})
    return()
  endif()
  string(TOUPPER ${name}_LIBRARY variable)
  find_library(${variable} NAMES ${ARGN})
  if(${variable})
    add_library(gossamer::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(gossamer::${name} PROPERTIES IMPORTED_LOCATION ${${variable}})
  endif()
endfunction()
