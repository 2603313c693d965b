# The program and its parts. Included by CMakeLists.txt.
# All of the program except main.cpp is a library, so that tests can call the commands.
file(GLOB_RECURSE app_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/*.cpp)
list(FILTER app_sources EXCLUDE REGEX
  "/apps/(main|cuda_capi|cuda_entry|course/morning)\\.cpp|/apps/(capi|course/(units|solutions))/")
list(REMOVE_ITEM app_sources ${model_source_files})
add_library(gossamer_apps STATIC ${app_sources})
target_link_libraries(gossamer_apps
  PUBLIC gossamer_model_source gossamer::models gossamer::data gossamer::dist
  PRIVATE gossamer_flags fmt::fmt nlohmann_json::nlohmann_json)
target_include_directories(gossamer_apps PUBLIC ${PROJECT_BINARY_DIR}/include)
# The page of `gossamer lesson` is part of the program.
file(GLOB lesson_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/lesson/*)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/lesson.cpp
  COMMAND ${CMAKE_COMMAND} -DOUT=${PROJECT_BINARY_DIR}/lesson.cpp
    -P ${PROJECT_SOURCE_DIR}/apps/lesson/embed.cmake
  DEPENDS ${lesson_files} VERBATIM)
target_sources(gossamer_apps PRIVATE ${PROJECT_BINARY_DIR}/lesson.cpp)
# So are the pages and exercises of `gossamer course`.
file(GLOB course_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/course/units/*
  ${PROJECT_SOURCE_DIR}/apps/course/solutions/* ${PROJECT_SOURCE_DIR}/apps/course/*.md)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/course.cpp
  COMMAND ${CMAKE_COMMAND} -DOUT=${PROJECT_BINARY_DIR}/course.cpp
    -P ${PROJECT_SOURCE_DIR}/apps/course/embed.cmake
  DEPENDS ${course_files} ${PROJECT_SOURCE_DIR}/apps/course/check.h
    ${PROJECT_SOURCE_DIR}/apps/course/embed.cmake VERBATIM)
target_sources(gossamer_apps PRIVATE ${PROJECT_BINARY_DIR}/course.cpp)
find_package(CLI11 CONFIG REQUIRED)
find_package(tomlplusplus CONFIG REQUIRED)
target_link_libraries(gossamer_apps PRIVATE CLI11::CLI11 tomlplusplus::tomlplusplus)
# `gossamer watch` serves pages if it is there.
find_path(HTTPLIB_INCLUDE httplib.h)
find_library(HTTPLIB_LIBRARY cpp-httplib)
if(HTTPLIB_INCLUDE AND HTTPLIB_LIBRARY)
  set_source_files_properties(apps/commands/watch.cpp PROPERTIES
    COMPILE_DEFINITIONS GOSSAMER_HAS_HTTP)
  target_include_directories(gossamer_apps SYSTEM PRIVATE ${HTTPLIB_INCLUDE})
  target_link_libraries(gossamer_apps PRIVATE ${HTTPLIB_LIBRARY})
endif()
add_executable(gossamer apps/main.cpp)
target_link_libraries(gossamer PRIVATE gossamer_apps gossamer_flags)

# The same program, and the library for C, as a file that those without CUDA open (cuda_module.h).
if(GOSSAMER_HAS_CUDA)
  add_library(gossamer_cuda MODULE apps/cuda_entry.cpp)
  set_target_properties(gossamer_cuda PROPERTIES OUTPUT_NAME gossamer-cuda SUFFIX .so.0
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/apps/cuda_entry.map)
  target_link_libraries(gossamer_cuda PRIVATE gossamer_apps gossamer_flags)
  if(GOSSAMER_CAPI)
    target_sources(gossamer_cuda PRIVATE apps/cuda_capi.cpp $<TARGET_OBJECTS:gossamer_capi>)
  endif()
  target_link_options(gossamer_cuda PRIVATE LINKER:--exclude-libs,ALL LINKER:--gc-sections
    LINKER:-z,defs LINKER:--version-script=${PROJECT_SOURCE_DIR}/apps/cuda_entry.map)
  if(GOSSAMER_INSTALL)
    install(TARGETS gossamer_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
  endif()
endif()

if(GOSSAMER_INSTALL)
  install(TARGETS gossamer COMPONENT program)
  # What shells and manuals know of the program, which writes it itself.
  foreach(page "completion bash" "completion zsh" man)
    string(REPLACE " " "-" file "gossamer-${page}")
    install(CODE "execute_process(
      COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:gossamer> ${page}
      OUTPUT_FILE ${PROJECT_BINARY_DIR}/${file} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
  endforeach()
  install(FILES ${PROJECT_BINARY_DIR}/gossamer-completion-bash RENAME gossamer
    DESTINATION share/bash-completion/completions COMPONENT program)
  install(FILES ${PROJECT_BINARY_DIR}/gossamer-completion-zsh RENAME _gossamer
    DESTINATION share/zsh/site-functions COMPONENT program)
  install(FILES ${PROJECT_BINARY_DIR}/gossamer-man RENAME gossamer.1 DESTINATION share/man/man1
    COMPONENT program)
endif()
