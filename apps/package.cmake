# Packages, made by `cpack` in the build folder: an archive of everything that may lie anywhere
# (gossamer-…-Linux.tar.gz), and Debian packages: libgossamer0 (the library for C), libgossamer-dev
# (headers, static libraries, CMake and pkg-config files), gossamer (the program). Configure with
# -DCMAKE_INSTALL_PREFIX=/usr, so that libraries lie where Debian has them. These come from a build
# without CUDA; of one with CUDA only libgossamer-cuda0 is for all: the file that makes the program
# and the library use GPUs (cuda_module.h). Included by CMakeLists.txt.
set(CPACK_PACKAGE_NAME gossamer)
set(CPACK_PACKAGE_VENDOR Gossamer)
set(CPACK_PACKAGE_CONTACT "Gossamer <gossamer@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Deep learning and decentralized training")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR TGZ DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL library development program)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
if(GOSSAMER_HAS_CUDA)
  set(CPACK_COMPONENTS_ALL cuda)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_NM ${CMAKE_NM})
if(CMAKE_CROSSCOMPILING)
  # CPack asks the packages of the machine that builds, mend_package.cmake those of the sysroot.
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_CROSS_ROOT ${CMAKE_SYSROOT})
  set(CPACK_CROSS_LIBRARIES ${CMAKE_LIBRARY_ARCHITECTURE})
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE ${GOSSAMER_DEBIAN_ARCHITECTURE})
endif()
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/apps/mend_package.cmake)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libgossamer0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "The library for C.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libgossamer-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
  "Headers, static libraries, and files for CMake and pkg-config.")
# What the static libraries are linked with, for CMake and pkg-config.
set(needed libfmt-dev libhwy-dev libjpeg-dev libpcre2-dev libpng-dev libssl-dev
  libutf8proc-dev libzstd-dev zlib1g-dev)
foreach(library dnnl gloo)
  if(${library}_FOUND)
    list(APPEND needed lib${library}-dev)
  endif()
endforeach()
list(JOIN needed ", " needed)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libgossamer0 (= ${PROJECT_VERSION}), ${needed}")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME gossamer)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "The program gossamer.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME libgossamer-cuda0)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CUDA_DESCRIPTION "The file by which the program and the library use NVIDIA GPUs.")
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS
  "libgossamer0 (= ${PROJECT_VERSION}) | gossamer (= ${PROJECT_VERSION})")
# Each carries its licence where Debian has it.
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} name)
  install(FILES LICENSE DESTINATION share/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME}
    RENAME copyright COMPONENT ${component})
endforeach()
include(CPack)
