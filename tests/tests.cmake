# The test programs, and the tests that are scripts. Included by CMakeLists.txt.
enable_testing()
find_package(GTest REQUIRED)
include(GoogleTest)

# Longer than the tests themselves wait for events on a loaded machine.
set(timeout $<IF:$<BOOL:${GOSSAMER_SANITIZE}>,3000,1500>)

# gossamer_tests(NAME FOLDER [EXCEPT FOLDER]): the program test_NAME of the tests below a folder.
function(gossamer_tests name folder)
  cmake_parse_arguments(arg "" "EXCEPT" "" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*_test.cpp)
  if(arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "/${arg_EXCEPT}/")
  endif()
  set(program test_${name})
  add_executable(${program} ${sources} ${PROJECT_SOURCE_DIR}/tests/support/environment.cpp)
  target_link_libraries(${program} PRIVATE gossamer_apps gossamer_flags
    GTest::gtest GTest::gmock GTest::gtest_main fmt::fmt nlohmann_json::nlohmann_json)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${program} PRIVATE
    GOSSAMER_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GOSSAMER_PROGRAM="$<TARGET_FILE:gossamer>")
  # EXPECT_… stands below an `if` without braces.
  target_compile_options(${program} PRIVATE -Wno-dangling-else)
  add_dependencies(${program} gossamer)
  # ctest -L gpu: the tests that need a GPU and are skipped without one.
  gtest_discover_tests(${program} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    PROPERTIES TIMEOUT ${timeout} LABELS $<IF:$<STREQUAL:${name},gpu>,gpu,cpu>)
endfunction()

# The toolkit's stub of the driver: cuDNN plans attention with it where there is none.
if(GOSSAMER_HAS_CUDA)
  get_filename_component(toolkit ${NVCC} REALPATH)
  find_library(CUDA_STUB cuda NO_DEFAULT_PATH HINTS ${toolkit}/../.. ${CUDA_INCLUDE}/..
    PATH_SUFFIXES lib64/stubs lib/stubs targets/x86_64-linux/lib/stubs)
endif()
set_source_files_properties(tests/core/cuda/attention_plan_test.cpp
  PROPERTIES COMPILE_DEFINITIONS GOSSAMER_CUDA_STUB="${CUDA_STUB}")
list(JOIN GOSSAMER_CUDA_ARCH " " built_for)
set_property(SOURCE tests/core/cuda/fatbin_test.cpp PROPERTY COMPILE_DEFINITIONS
  GOSSAMER_BUILT_FOR="${built_for}" GOSSAMER_PTX="${GOSSAMER_PTX}")

gossamer_tests(core tests/core EXCEPT tests/core/ops)
# The kernels alone, for tests/interop/aarch64.
add_executable(test_kernels EXCLUDE_FROM_ALL
  tests/core/backend_parity_test.cpp tests/core/vectors_test.cpp)
target_link_libraries(test_kernels PRIVATE
  gossamer::core gossamer_flags GTest::gtest GTest::gtest_main)
target_include_directories(test_kernels PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_include_directories(test_kernels SYSTEM PRIVATE ${HWY_INCLUDE})
gossamer_tests(ops tests/core/ops)
gossamer_tests(nn tests/nn)
gossamer_tests(models tests/models)
gossamer_tests(data tests/data)
gossamer_tests(dist tests/dist EXCEPT tests/dist/net)
gossamer_tests(net tests/dist/net)
# Its files include Asio and OpenSSL, as those of dist do.
target_compile_definitions(test_net PRIVATE ${asio_definitions})
target_link_libraries(test_net PRIVATE OpenSSL::SSL ${CMAKE_DL_LIBS})
if(gloo_FOUND)
  target_include_directories(test_net SYSTEM PRIVATE ${GLOO_INCLUDE})
  target_link_libraries(test_net PRIVATE gossamer::gloo)
  target_compile_definitions(test_net PRIVATE GOSSAMER_HAS_GLOO)
endif()
gossamer_tests(apps tests/apps)
# What tests/apps/cuda_module_test.cpp opens.
add_library(other_module MODULE tests/apps/other_module.cpp)
add_dependencies(test_apps other_module)
if(GOSSAMER_HAS_CUDA)
  add_dependencies(test_apps gossamer_cuda)
endif()
gossamer_tests(gpu tests/gpu)
gossamer_tests(fuzz tests/fuzz)

# As another program: with libgossamer.so alone.
file(GLOB capi_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/capi/*_test.cpp)
add_executable(test_capi ${capi_tests})
target_link_libraries(test_capi PRIVATE
  gossamer_capi gossamer_flags GTest::gtest GTest::gmock GTest::gtest_main)
target_include_directories(test_capi PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(test_capi PRIVATE GOSSAMER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# What tests/capi/device_test.cpp puts beside the library. A build with CUDA looks for none.
if(GOSSAMER_HAS_CUDA)
  target_compile_definitions(test_capi PRIVATE GOSSAMER_HAS_CUDA)
else()
  add_library(emulated_module MODULE
    tests/capi/emulated_module.cpp $<TARGET_OBJECTS:gossamer_capi>)
  target_link_libraries(emulated_module PRIVATE
    gossamer_model_source gossamer::models gossamer::data gossamer::dist gossamer_flags)
  target_link_options(emulated_module PRIVATE LINKER:--exclude-libs,ALL LINKER:--gc-sections
    LINKER:--version-script=${PROJECT_SOURCE_DIR}/apps/cuda_entry.map)
  add_dependencies(test_capi emulated_module)
  target_compile_definitions(test_capi PRIVATE
    GOSSAMER_EMULATED_MODULE="$<TARGET_FILE:emulated_module>")
endif()
gtest_discover_tests(test_capi TEST_PREFIX "capi." DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
  PROPERTIES TIMEOUT ${timeout} LABELS cpu)

# tests/run does not look for leaks, but wrong calls may leave none.
if(GOSSAMER_SANITIZE STREQUAL "address")
  add_test(NAME capi.leaks COMMAND test_capi --gtest_filter=WrongCalls.*:CApi.*:CErrors.*:CJoin.*)
  set_tests_properties(capi.leaks PROPERTIES
    ENVIRONMENT ASAN_OPTIONS=detect_leaks=1 TIMEOUT ${timeout})
endif()

# tests/fuzz/run builds each of these with clang. Here all are in one program, so each entry point
# gets a name of its own.
file(GLOB fuzzers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.cpp)
list(FILTER fuzzers EXCLUDE REGEX "_test\\.cpp$")
foreach(file ${fuzzers})
  get_filename_component(name ${file} NAME_WE)
  set_source_files_properties(${file} PROPERTIES
    COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=fuzz_${name})
endforeach()
target_sources(test_fuzz PRIVATE ${fuzzers})

add_executable(bench_passes tests/bench/passes.cpp tests/bench/text_passes.cpp)
target_link_libraries(bench_passes PRIVATE gossamer::core gossamer_flags)
target_include_directories(bench_passes PRIVATE ${PROJECT_SOURCE_DIR}/tests)
add_executable(bench_whole_steps tests/bench/whole_steps.cpp)
target_link_libraries(bench_whole_steps PRIVATE gossamer::models gossamer_flags)
# What `tests/gpu/run` has the driver load into a program: its kernels as CUPTI sees them.
if(GOSSAMER_HAS_CUDA)
  find_path(CUPTI_INCLUDE cupti.h HINTS ${CUDA_INCLUDE} ${toolkit}/../../extras/CUPTI/include
    ${CUDA_INCLUDE}/../../cuda_cupti/include)
endif()
if(CUPTI_INCLUDE)
  add_library(kernel_times MODULE tests/gpu/kernel_times.cpp)
  target_link_libraries(kernel_times PRIVATE gossamer_flags ${CMAKE_DL_LIBS})
  target_include_directories(kernel_times PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_include_directories(kernel_times SYSTEM PRIVATE ${CUPTI_INCLUDE} ${CUDA_INCLUDE})
  set_target_properties(kernel_times PROPERTIES CXX_VISIBILITY_PRESET hidden)
else()
  add_custom_target(kernel_times)
endif()
add_executable(wan_bridge tests/bench/wan_bridge.cpp)
target_link_libraries(wan_bridge PRIVATE gossamer_flags)
add_executable(bench_links tests/bench/links.cpp)
target_link_libraries(bench_links PRIVATE gossamer::dist gossamer_flags)
target_include_directories(bench_links SYSTEM PRIVATE ${ASIO_INCLUDE})
target_compile_definitions(bench_links PRIVATE ${asio_definitions})
add_executable(bench_checksums tests/bench/checksums.cpp)
target_link_libraries(bench_checksums PRIVATE gossamer::core gossamer_flags)
add_executable(bench_compressors tests/bench/compressors.cpp)
target_link_libraries(bench_compressors PRIVATE gossamer::dist gossamer_flags)
# What the cores can do, and the kernels beside it.
add_library(core_peak STATIC tests/bench/core_peak.cpp)
target_link_libraries(core_peak PUBLIC gossamer::core PRIVATE gossamer_flags gossamer::hwy)
target_include_directories(core_peak SYSTEM PRIVATE ${HWY_INCLUDE})
add_executable(bench_kernels tests/bench/kernels.cpp)
target_link_libraries(bench_kernels PRIVATE
  core_peak CLI11::CLI11 nlohmann_json::nlohmann_json gossamer_flags)

# Model files and pictures against PyTorch and torchvision; skipped if those are not installed.
find_program(PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
add_executable(checkpoint_interop tests/interop/checkpoint_interop.cpp)
target_link_libraries(checkpoint_interop PRIVATE gossamer::models gossamer_flags)
add_executable(image_interop tests/interop/image_interop.cpp)
target_link_libraries(image_interop PRIVATE gossamer::data gossamer_flags)
add_executable(tokenizer_interop tests/interop/tokenizer_interop.cpp)
target_link_libraries(tokenizer_interop PRIVATE
  gossamer::data nlohmann_json::nlohmann_json gossamer_flags)
if(PYTHON)
  add_test(NAME pages.numbers
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/pages/check.py ${PROJECT_SOURCE_DIR}
      $<TARGET_FILE:gossamer>)
  set_tests_properties(pages.numbers PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${timeout})
  add_test(NAME interop.images_torchvision
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/images_torchvision.py
      $<TARGET_FILE:image_interop> ${PROJECT_SOURCE_DIR}/../shared/data/photos/photos.tar)
  add_test(NAME interop.sizes_torchvision
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/sizes_torchvision.py
      $<TARGET_FILE:image_interop> 2000)
  set_tests_properties(interop.images_torchvision interop.sizes_torchvision
    PROPERTIES SKIP_RETURN_CODE 77)
  add_test(NAME interop.weights_torch
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/weights_torch.py
      $<TARGET_FILE:gossamer> $<TARGET_FILE:checkpoint_interop>
      ${PROJECT_SOURCE_DIR}/../shared/data/photos/photos.tar)
  set_tests_properties(interop.weights_torch PROPERTIES
    SKIP_RETURN_CODE 77 ENVIRONMENT OMP_WAIT_POLICY=passive)
  add_test(NAME interop.safetensors_torch
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/safetensors_torch.py
      $<TARGET_FILE:checkpoint_interop>)
  set_tests_properties(interop.safetensors_torch PROPERTIES
    SKIP_RETURN_CODE 77 ENVIRONMENT OMP_WAIT_POLICY=passive)
  add_test(NAME interop.tensorboard_read
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/tensorboard_read.py
      $<TARGET_FILE:gossamer>)
  add_test(NAME interop.tokenizers_live
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/tokenizers_live.py
      $<TARGET_FILE:tokenizer_interop>)
  add_test(NAME interop.language_huggingface
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/language_huggingface.py
      $<TARGET_FILE:gossamer>)
  add_test(NAME interop.gguf_llamacpp
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/gguf_llamacpp.py
      $<TARGET_FILE:gossamer>)
  set_tests_properties(interop.language_huggingface interop.gguf_llamacpp PROPERTIES
    SKIP_RETURN_CODE 77 ENVIRONMENT OMP_WAIT_POLICY=passive)
  add_test(NAME interop.onnx_capi
    COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/onnx_capi.py
      $<TARGET_FILE:gossamer_capi>)
  set_tests_properties(interop.tensorboard_read interop.tokenizers_live interop.onnx_capi
    PROPERTIES SKIP_RETURN_CODE 77)
endif()

# The program and the library on CPUs that qemu pretends to be.
add_executable(old_cpu tests/interop/old_cpu.cpp)
target_link_libraries(old_cpu PRIVATE gossamer::core gossamer_flags)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  set_source_files_properties(tests/interop/old_cpu.cpp PROPERTIES COMPILE_OPTIONS -march=x86-64)
  add_test(NAME interop.cpus
    COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/cpus ${PROJECT_BINARY_DIR})
  set_tests_properties(interop.cpus PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT ${timeout})
endif()

# The kernels for ARM, where tests/interop/aarch64 was run before.
add_test(NAME interop.aarch64
  COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/aarch64 --offline
    ${PROJECT_SOURCE_DIR}/build/aarch64 kernels)
set_tests_properties(interop.aarch64 PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${timeout})

add_test(NAME interop.clang
  COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/clang ${PROJECT_SOURCE_DIR})
set_tests_properties(interop.clang PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${timeout})

# Other programs that use what is installed, each in its language. Those of C++ have the sources as
# a folder too (configured only: it is the same build).
add_executable(consumer_model tests/consumers/model.cpp)
target_link_libraries(consumer_model PRIVATE gossamer::models gossamer_flags)
add_executable(consumer_replay tests/consumers/replay.cpp)
target_link_libraries(consumer_replay PRIVATE gossamer::nn gossamer::dist gossamer_flags)
foreach(consumer cpp headers c python rust go abi readme llm.c)
  add_test(NAME consumers.${consumer} COMMAND ${PROJECT_SOURCE_DIR}/tests/consumers/run
    ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${consumer})
  set_tests_properties(consumers.${consumer} PROPERTIES
    SKIP_RETURN_CODE 77 TIMEOUT ${timeout})
endforeach()

# The scripts that make a bundle and measure on a GPU, with fake programs.
foreach(script run bundle)
  add_test(NAME gpu_${script} COMMAND ${PROJECT_SOURCE_DIR}/tests/gpu/${script}_test)
  set_tests_properties(gpu_${script} PROPERTIES LABELS cpu TIMEOUT ${timeout})
endforeach()

# The program of nn/README.md: its loss falls.
add_executable(readme_example tests/nn/readme_example.cpp)
target_link_libraries(readme_example PRIVATE gossamer::nn gossamer_flags)
add_test(NAME readme_example COMMAND readme_example)
set_tests_properties(readme_example PROPERTIES
  PASS_REGULAR_EXPRESSION "step 50  loss 0\\.0")
