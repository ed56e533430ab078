# quire_library(<folder> DEPS <other folders...> EXTERNAL <imported targets...>)
#
# One static library a folder: every *.cpp beside the CMakeLists.txt (and in its sub-folders) except
# tests and benchmarks. `foo_test.cpp` files become the test program <folder>_test and
# `foo_benchmark.cpp` files the program <folder>_benchmark. DEPS are the only Quire folders whose
# headers this one may include; scripts/check_edges.py enforces the same list in CI.
function(quire_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;EXTERNAL" ${ARGN})
  file(GLOB_RECURSE all_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  set(sources ${all_sources})
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cpp$")
  set(tests ${all_sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  set(benchmarks ${all_sources})
  list(FILTER benchmarks INCLUDE REGEX "_benchmark\\.cpp$")

  list(TRANSFORM ARG_DEPS PREPEND quire_)
  if(sources)
    add_library(quire_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(quire_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(quire_${name} ${scope} ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(quire_${name} ${scope} ${ARG_DEPS} ${ARG_EXTERNAL})

  if(QUIRE_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE quire_${name} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE QUIRE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60
                         PROPERTIES TIMEOUT 600)
  endif()
  if(QUIRE_BUILD_BENCHMARKS AND benchmarks)
    add_executable(${name}_benchmark ${benchmarks})
    target_link_libraries(${name}_benchmark PRIVATE quire_${name} benchmark::benchmark_main)
  endif()
endfunction()

# Compiles the sources of one instruction-set level with its flags, and nothing else with them.
function(quire_instruction_set folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cpp$")
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "${ARGN}")
endfunction()
