# The library for C: libgossamer.so, which shows only gsm_*. Included by CMakeLists.txt.
file(GLOB capi_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/capi/*.cpp)
# What is exported passes its arguments on, and what computes has names of its own: calls.h.
# Written while CMake configures: what only reads compile_commands.json, as clangd and
# tests/interop/clang, finds them too.
set(forward ${PROJECT_BINARY_DIR}/capi)
execute_process(COMMAND ${CMAKE_COMMAND} -DHEADERS=${PROJECT_SOURCE_DIR}/apps/capi -DOUT=${forward}
  -P ${PROJECT_SOURCE_DIR}/apps/capi/forward.cmake COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/apps/capi/gossamer_table.h ${PROJECT_SOURCE_DIR}/apps/capi/forward.cmake)
set_source_files_properties(${capi_sources} PROPERTIES
  COMPILE_OPTIONS "-include;${forward}/own_names.h" OBJECT_DEPENDS ${forward}/own_names.h)
add_library(gossamer_capi SHARED ${capi_sources} ${forward}/forward.cpp)
set_target_properties(gossamer_capi PROPERTIES
  OUTPUT_NAME gossamer VERSION ${PROJECT_VERSION} SOVERSION 0
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/apps/capi/gossamer.map)
target_compile_definitions(gossamer_capi PRIVATE GOSSAMER_VERSION="${PROJECT_VERSION}")
target_link_libraries(gossamer_capi PRIVATE
  gossamer_model_source gossamer::models gossamer::data gossamer::dist gossamer_flags)
# nodelete: its sleeping threads outlive a dlclose.
target_link_options(gossamer_capi PRIVATE LINKER:--exclude-libs,ALL LINKER:--gc-sections
  LINKER:-z,nodelete
  $<$<NOT:$<BOOL:${GOSSAMER_SANITIZE}>>:LINKER:-z,defs>
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/apps/capi/gossamer.map)
# The same as an archive, which needs those of the C++ libraries: gossamer-static.pc.
add_library(gossamer_capi_static STATIC
  $<TARGET_OBJECTS:gossamer_capi> $<TARGET_OBJECTS:gossamer_model_source>)
set_target_properties(gossamer_capi_static PROPERTIES OUTPUT_NAME gossamer)
if(GOSSAMER_INSTALL)
  # apps/quickstart builds the program alone.
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:gossamer_capi>\")
    execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${PROJECT_BINARY_DIR}\"
      --target gossamer_capi COMMAND_ERROR_IS_FATAL ANY)
  endif()" COMPONENT library)
  install(TARGETS gossamer_capi LIBRARY COMPONENT library NAMELINK_SKIP)
  # `gossamer course` installs the static libraries of a build that may lack this one.
  install(TARGETS gossamer_capi LIBRARY COMPONENT development NAMELINK_ONLY OPTIONAL)
  install(TARGETS gossamer_capi_static ARCHIVE COMPONENT development OPTIONAL)
  install(FILES apps/capi/gossamer.h apps/capi/gossamer_networks.h apps/capi/gossamer_table.h
    DESTINATION include COMPONENT development)
  foreach(example c cpp go llm.c python rust)
    install(DIRECTORY tests/consumers/${example}
      DESTINATION share/doc/gossamer/examples COMPONENT development)
  endforeach()
  configure_file(apps/capi/gossamer.pc.in gossamer.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/gossamer.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
  install(FILES apps/capi/gossamer.supp DESTINATION share/gossamer COMPONENT development)
endif()
