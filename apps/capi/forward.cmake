# cmake -DHEADERS=… -DOUT=FOLDER -P forward.cmake: writes, from the table in gossamer_table.h,
# FOLDER/own_names.h, by which the functions that compute have names of their own, and
# FOLDER/forward.cpp with the exported functions, which pass their arguments on (calls.h).
file(READ ${HEADERS}/gossamer_table.h table)
string(REGEX REPLACE "//[^\n]*\n" "" table "${table}")
string(REGEX REPLACE "[ \n]+" " " table "${table}")
string(REGEX MATCH "typedef struct gsm_api {(.*)} gsm_api;" table "${table}")
string(REGEX MATCHALL "[a-z_ ]+[ *]+\\(\\*[a-z0-9_]+\\)\\([^;]*\\);" rows "${CMAKE_MATCH_1}")
set(names "// Written by apps/capi/forward.cmake.\n")
set(code "// Written by apps/capi/forward.cmake.
#include \"gossamer/apps/capi/calls.h\"

namespace {
template <class T>
struct Argument {
  using Type = T;
};
template <class T>
using A = typename Argument<T>::Type;  // of function pointers, too, written before a name
}  // namespace

using gossamer::capi::calls;

const gsm_api* gsm_get_api(uint32_t version) {
  return version >= 1 && version <= GSM_API_VERSION ? &calls() : nullptr;
}
")
string(APPEND names "#define gsm_get_api own_gsm_get_api\n")
foreach(row ${rows})
  string(REGEX MATCH "^ ?([a-z_ ]+[ *]+)\\(\\*([a-z0-9_]+)\\)\\((.*)\\)$" row "${row}")
  set(result "${CMAKE_MATCH_1}")
  set(name ${CMAKE_MATCH_2})
  set(types "${CMAKE_MATCH_3}")
  set(parameters "")
  set(arguments "")
  if(NOT types STREQUAL "void")
    # A comma inside of a function's own arguments separates none here.
    string(REGEX REPLACE "(\\([^()]*),([^()]*\\))" "\\1<comma>\\2" types "${types}")
    string(REGEX REPLACE ", *" ";" types "${types}")
    set(i 0)
    foreach(type ${types})
      string(REPLACE "<comma>" "," type "${type}")
      list(APPEND parameters "A<${type}> a${i}")
      list(APPEND arguments a${i})
      math(EXPR i "${i} + 1")
    endforeach()
  endif()
  list(JOIN parameters ", " parameters)
  list(JOIN arguments ", " arguments)
  string(APPEND names "#define gsm_${name} own_gsm_${name}\n")
  string(APPEND code
    "${result}gsm_${name}(${parameters}) { return calls().${name}(${arguments}); }\n")
endforeach()
# What did not change keeps its time: nothing is compiled again.
foreach(file own_names.h=names forward.cpp=code)
  string(REGEX MATCH "(.*)=(.*)" _ ${file})
  file(WRITE ${OUT}/${CMAKE_MATCH_1}.new "${${CMAKE_MATCH_2}}")
  file(COPY_FILE ${OUT}/${CMAKE_MATCH_1}.new ${OUT}/${CMAKE_MATCH_1} ONLY_IF_DIFFERENT)
endforeach()
