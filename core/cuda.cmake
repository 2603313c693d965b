# Finds CUDA, cuDNN and NCCL in the toolkit's folder, in pip's wheels (of an active virtual
# environment or beside nvcc), or where cache variables say. Without a toolkit:
#   pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-cublas
#     nvidia-cudnn-cu13 nvidia-nccl-cu13
# Sets
#   GOSSAMER_HAS_CUDA        whether the CUDA backend is compiled
#   GOSSAMER_PTX             the architecture whose PTX is added; empty: none
#   GOSSAMER_CUDA_LIBRARIES  folders in which what is built here looks for cuDNN, cuBLASLt and NCCL
# One binary runs on machines with and without a GPU: the CUDA runtime is linked statically, and
# finds no driver on the latter; the large libraries are loaded at run time, when first used.
set(GOSSAMER_HAS_CUDA FALSE)
set(GOSSAMER_CUDA_LIBRARIES "")
if(GOSSAMER_SANITIZE AND GOSSAMER_CUDA STREQUAL "AUTO")
  set(GOSSAMER_CUDA_MISSING "not with a sanitizer")
elseif(NOT GOSSAMER_CUDA STREQUAL "OFF")
  set(in_environment "")
  if(DEFINED ENV{VIRTUAL_ENV})
    file(GLOB in_environment LIST_DIRECTORIES true
      $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/*)
  endif()
  find_program(NVCC nvcc
    HINTS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda ${in_environment} PATH_SUFFIXES bin)
  set(missing "")
  if(NOT NVCC)
    list(APPEND missing nvcc)
  else()
    get_filename_component(folder ${NVCC} REALPATH)
    get_filename_component(folder ${folder} DIRECTORY)
    get_filename_component(folder ${folder} DIRECTORY)
    file(GLOB wheels LIST_DIRECTORIES true ${folder}/../*/include ${folder}/../../nvidia/*/include)
    find_path(CUDA_INCLUDE cuda_runtime.h
      HINTS ${folder} PATH_SUFFIXES include targets/x86_64-linux/include)
    set(hints HINTS ${CUDA_INCLUDE} ${wheels} ${in_environment} PATH_SUFFIXES include)
    find_path(CUDNN_INCLUDE cudnn.h ${hints} x86_64-linux-gnu)
    find_path(CUBLASLT_INCLUDE cublasLt.h ${hints})
    find_path(NCCL_INCLUDE nccl.h ${hints})
    gossamer_find_library(cudart cudart_static
      HINTS ${folder} PATH_SUFFIXES lib64 lib targets/x86_64-linux/lib)
    foreach(library
        CUDNN:libcudnn.so.9 CUBLASLT:libcublasLt.so.13,libcublasLt.so.12 NCCL:libnccl.so.2)
      string(REGEX MATCH "^[A-Z]+" name ${library})
      string(REGEX REPLACE "^[A-Z]+:" "" files ${library})
      string(REPLACE "," ";" files ${files})
      find_library(${name}_LIBRARY NAMES ${files}
        HINTS ${folder} ${${name}_INCLUDE}/.. PATH_SUFFIXES lib64 lib)
      if(${name}_LIBRARY)
        get_filename_component(where ${${name}_LIBRARY} DIRECTORY)
        list(APPEND GOSSAMER_CUDA_LIBRARIES ${where})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES GOSSAMER_CUDA_LIBRARIES)
    if(CUDA_INCLUDE)
      file(STRINGS ${CUDA_INCLUDE}/cuda_runtime_api.h version REGEX "define CUDART_VERSION ")
      string(REGEX REPLACE "[^0-9]" "" version "${version}")
      if(version LESS 12000)
        list(APPEND missing "CUDA 12 or newer (this is ${version})")
      endif()
    endif()
    foreach(needed CUDA_INCLUDE:cuda_runtime.h CUDNN_INCLUDE:cudnn.h
        CUBLASLT_INCLUDE:cublasLt.h CUDART_LIBRARY:libcudart_static.a)
      string(REPLACE ":" ";" needed ${needed})
      list(GET needed 0 variable)
      list(GET needed 1 file)
      if(NOT ${variable})
        list(APPEND missing ${file})
      endif()
    endforeach()
  endif()
  list(JOIN missing ", " GOSSAMER_CUDA_MISSING)
  if(NOT missing)
    set(GOSSAMER_HAS_CUDA TRUE)
  elseif(GOSSAMER_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GOSSAMER_CUDA=ON, but not found: ${GOSSAMER_CUDA_MISSING}. Install the "
      "CUDA toolkit and cuDNN 9 (headers and libraries; pip's wheels are enough, see "
      "core/cuda.cmake), or name them: -DNVCC=…/nvcc -DCUDNN_INCLUDE=… -DCUBLASLT_INCLUDE=… "
      "-DCUDART_LIBRARY=…/libcudart_static.a")
  endif()
endif()
if(GOSSAMER_HAS_CUDA)
  # For programs where they are built; what is installed has no path of this machine. A bundle has
  # its libraries in a folder of its own.
  if(NOT CMAKE_BUILD_RPATH)
    set(CMAKE_BUILD_RPATH ${GOSSAMER_CUDA_LIBRARIES})
  endif()
  set(cuda_text "CUDA for ${GOSSAMER_CUDA_ARCH}")
  # The list may have any order.
  set(GOSSAMER_PTX ${GOSSAMER_CUDA_PTX})
  if(GOSSAMER_PTX STREQUAL "ON")
    set(sorted ${GOSSAMER_CUDA_ARCH})
    list(SORT sorted COMPARE NATURAL)
    list(GET sorted -1 GOSSAMER_PTX)
  elseif(NOT GOSSAMER_PTX)
    set(GOSSAMER_PTX "")
  endif()
  if(GOSSAMER_PTX)
    string(APPEND cuda_text " with PTX of ${GOSSAMER_PTX}")
  endif()
  if(NOT NCCL_INCLUDE)
    string(APPEND cuda_text " (without NCCL: nccl.h not found)")
  endif()
elseif(GOSSAMER_CUDA STREQUAL "OFF")
  set(cuda_text "no CUDA (switched off)")
else()
  set(cuda_text "no CUDA (${GOSSAMER_CUDA_MISSING})")
endif()

# Adds CUDA to a library: the vendor's headers for its .cpp files, and nvcc for ops/op_*.cpp and
# cuda/kernels, whose formulas are written once. nvcc compiles their device code, and passes the
# rest to the same host compiler with the same options. The result is one object, in which the CPU's
# loops are the same as without CUDA.
function(gossamer_cuda_sources target)
  set(gencode "")
  foreach(arch ${GOSSAMER_CUDA_ARCH})
    list(APPEND gencode -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  if(GOSSAMER_PTX)
    list(APPEND gencode -gencode=arch=compute_${GOSSAMER_PTX},code=compute_${GOSSAMER_PTX})
  endif()
  # What no object of this build is for, for `ninja cuda_resources`: nothing but registers and
  # memory, which the test then reads too.
  set(others 80 89 90 100 120)
  list(REMOVE_ITEM others ${GOSSAMER_CUDA_ARCH})
  set(cubins "")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(host NATIVE_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND host -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC)
  if(GOSSAMER_NATIVE)
    list(APPEND host -march=native)
  elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    list(APPEND host -march=x86-64-v3)
  endif()
  if(GOSSAMER_WERROR)
    list(APPEND host -Wall -Wno-unknown-pragmas -Werror)
    set(warnings -Werror all-warnings)
  endif()
  list(JOIN host "," host)
  set(ccache "")
  if(CCACHE)
    set(ccache ${CCACHE})
  endif()
  file(GLOB files CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/core/ops/op_*.cpp ${PROJECT_SOURCE_DIR}/core/cuda/kernels/*.cpp)
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    set(object ${PROJECT_BINARY_DIR}/nvcc/${stem}.o)
    # Registers and memory of the kernels, for tests/core/cuda/resources_test.cpp.
    set(resources ${PROJECT_BINARY_DIR}/nvcc/${stem}.resources)
    set(exact "")
    # The same bits as on a CPU, where nothing is fused: parameters, the ids that are chosen, and
    # which pixels a window of a picture needs.
    if(stem MATCHES "^(op_update|op_blocks|op_choose|op_likeliest|op_exchange|input)$")
      set(exact -fmad=false)
    endif()
    set(options -x cu -std=c++20 -O3 -DNDEBUG -Xptxas -v ${warnings}
      -ccbin ${CMAKE_CXX_COMPILER} -Xcompiler ${host} ${exact} ${GOSSAMER_CUDA_FLAGS}
      -DGOSSAMER_HAS_CUDA -I${PROJECT_BINARY_DIR}/include -isystem ${CUDA_INCLUDE})
    add_custom_command(OUTPUT ${object} BYPRODUCTS ${resources}
      DEPENDS ${file} DEPFILE ${object}.d VERBATIM COMMENT "nvcc ${stem}"
      COMMAND ${PROJECT_SOURCE_DIR}/core/cuda/nvcc_keeping_resources ${resources}
        ${ccache} ${NVCC} ${options} ${gencode} -MD -MF ${object}.d -c ${file} -o ${object})
    list(APPEND objects ${object})
    foreach(arch ${others})
      set(cubin ${PROJECT_BINARY_DIR}/nvcc/${stem}.sm_${arch}.cubin)
      add_custom_command(OUTPUT ${cubin}
        DEPENDS ${file} DEPFILE ${cubin}.d VERBATIM COMMENT "nvcc ${stem} for sm_${arch}"
        COMMAND ${PROJECT_SOURCE_DIR}/core/cuda/nvcc_keeping_resources
          ${PROJECT_BINARY_DIR}/nvcc/${stem}.sm_${arch}.resources
          ${ccache} ${NVCC} ${options} -arch=sm_${arch} -MD -MF ${cubin}.d -cubin ${file}
          -o ${cubin})
      list(APPEND cubins ${cubin})
    endforeach()
  endforeach()
  add_custom_target(cuda_resources DEPENDS ${cubins})
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/nvcc)
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  # nvcc compiles these files; the compiler of the other files does not.
  set_source_files_properties(${files} PROPERTIES HEADER_FILE_ONLY TRUE)
  target_sources(${target} PRIVATE ${objects})
  target_compile_definitions(${target} PRIVATE GOSSAMER_HAS_CUDA)
  foreach(include ${CUDA_INCLUDE} ${CUDNN_INCLUDE} ${CUBLASLT_INCLUDE})
    target_include_directories(${target} SYSTEM PRIVATE ${include})
  endforeach()
  target_link_libraries(${target} PRIVATE gossamer::cudart ${CMAKE_DL_LIBS} rt)
endfunction()
