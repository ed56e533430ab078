# Compiler settings shared by every target. Warnings are errors in every preset.
option(QUIRE_BUILD_TESTS "Build unit and end-to-end tests" ON)
option(QUIRE_BUILD_BENCHMARKS "Build microbenchmarks" ON)
option(QUIRE_CUDA "Build the kernels for NVIDIA GPUs (needs nvcc 13)" OFF)
option(QUIRE_PYTHON "Build the Python package's extension module (needs nanobind and Python's headers)" OFF)
option(QUIRE_COMPILE_BY_FOLDER "Compile the sources of a folder together: all of them in half the time" ON)
set(QUIRE_MODEL_ROOT "${PROJECT_SOURCE_DIR}" CACHE PATH
    "Where the program looks for models/ with the bundled model, besides the working directory")
set(QUIRE_SANITIZE "" CACHE STRING "Sanitizers to build with, e.g. address,undefined or thread")

set(QUIRE_LEVELS all CACHE STRING "Instruction-set levels to compile: all, avx2 alone, or native for that of this machine alone")
set_property(CACHE QUIRE_LEVELS PROPERTY STRINGS all avx2 native)
if(NOT QUIRE_LEVELS MATCHES "^(all|avx2|native)$")
  message(FATAL_ERROR "QUIRE_LEVELS is ${QUIRE_LEVELS}; it may be all, avx2 or native")
endif()

set(QUIRE_EMULATE all CACHE STRING "Levels to compile for tests on emulated instructions: all, or missing for those this machine lacks")
set_property(CACHE QUIRE_EMULATE PROPERTY STRINGS all missing)
if(NOT QUIRE_EMULATE MATCHES "^(all|missing)$")
  message(FATAL_ERROR "QUIRE_EMULATE is ${QUIRE_EMULATE}; it may be all or missing")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                    -Wnon-virtual-dtor -Woverloaded-virtual -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string's own copies that cannot be (GCC bug 105651), and reads of
  # what a std::optional does not hold behind the test of whether it does (GCC bug 80635).
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)
endif()
# The reduction order of a kernel is part of its contract: the compiler may not fuse or reorder.
add_compile_options(-ffp-contract=off)

if(QUIRE_SANITIZE)
  add_compile_options(-fsanitize=${QUIRE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${QUIRE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND QUIRE_SANITIZE MATCHES undefined)
    # Clang 14 cannot check the types of called functions where there are coroutines ("Cannot represent
    # a difference across sections").
    add_compile_options(-fno-sanitize=function)
  endif()
  # Assertions belong to it, whatever the build type says; base_test fails where they are not there.
  add_compile_options(-UNDEBUG)
  add_compile_definitions(QUIRE_SANITIZE="${QUIRE_SANITIZE}")
  if(QUIRE_SANITIZE MATCHES thread)
    # The thread sanitizer does not know fences (GCC warns). Asio's come on top of its own locks.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()

find_program(QUIRE_CCACHE ccache)
if(QUIRE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${QUIRE_CCACHE})
endif()
