# A toolchain file: builds for 64-bit ARM on another machine, with Debian's cross compiler and
# libraries of arm64 that lie in a folder (cross_root of apps/setup.sh makes it). What is built runs
# under qemu, so tests are found and run as usual.
#     cmake -S . -B build --toolchain apps/aarch64.cmake -DGOSSAMER_SYSROOT=FOLDER
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(GOSSAMER_DEBIAN_ARCHITECTURE arm64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GOSSAMER_SYSROOT)
if(NOT IS_DIRECTORY "${GOSSAMER_SYSROOT}/usr/include")
  message(FATAL_ERROR "say -DGOSSAMER_SYSROOT=FOLDER, where libraries of arm64 are unpacked")
endif()
set(CMAKE_SYSROOT ${GOSSAMER_SYSROOT})
# The static one (qemu-user-static) takes no plugins. With them, a forked child of QEMU 7.2 ends
# when it starts a thread.
find_program(GOSSAMER_QEMU NAMES qemu-aarch64-static qemu-aarch64 REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR "${GOSSAMER_QEMU};-L;${GOSSAMER_SYSROOT}")
# Programs are this machine's, all else is in the folder.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
